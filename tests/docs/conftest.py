"""One real server on the built-in base for all pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docs.running import Place, place_in
from graftwork.cli.demo_server import running_server
from graftwork.client import Client
from support.fixtures import SHARED_CACHE

READY_TIMEOUT_S = 120


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where prepared bases are kept: the one that `make` uses, so that the base is unpacked once."""
    return Path(SHARED_CACHE) if SHARED_CACHE else tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Place]:
    """A server that is ready, and a folder to run commands in."""
    home = tmp_path_factory.mktemp("home")
    with _private_targets(), running_server(home, cache) as server:
        with Client(server.url) as client:
            deadline = time.monotonic() + READY_TIMEOUT_S
            while reasons := client.ready():
                server.check()
                assert time.monotonic() < deadline, reasons
                time.sleep(0.05)
        yield place_in(tmp_path_factory.mktemp("checkout"), server.url, home=home, cache=cache)


@contextmanager
def _private_targets() -> Iterator[None]:
    """Receivers of webhooks are on this machine."""
    with pytest.MonkeyPatch.context() as surroundings:
        surroundings.setenv("GRAFTWORK_WEBHOOK_PRIVATE_TARGETS", "true")
        yield
