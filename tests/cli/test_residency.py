"""The verbs of memory, against a server: where versions stand, load, pin, unpin, unload."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import graftwork.client
from graftwork.client import Client
from graftwork.testing import FakeEngine, write_lora
from support.served import Served

if TYPE_CHECKING:
    from cli.conftest import Cli


@pytest.fixture
def url(served: Served, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of a server on a fake engine, in this process instead of behind a socket."""

    @contextmanager
    def reach(url: str) -> Iterator[Client]:
        assert url == "http://server"
        yield served.client

    monkeypatch.setattr(graftwork.client, "Client", reach)
    return "http://server"


def test_a_version_is_loaded_pinned_and_unloaded(cli: Cli, url: str, tmp_path: Path) -> None:
    assert cli("push", str(write_lora(tmp_path / "a", FakeEngine().outline)), "alpha", "--url", url).code == 0
    assert cli("load", "alpha", "--url", url, "-o", "json").json()["state"] == "resident"
    assert "resident, pinned" in cli("pin", "alpha:1.0.0", "--url", url).out
    refused = cli("unload", "alpha", "--url", url)
    assert refused.code == 1 and "unpin it first" in refused.err
    shown = cli("residency", "--url", url)
    assert shown.code == 0 and "alpha:1.0.0" in shown.out and "pinned" in shown.out
    assert cli("residency", "--state", "failed", "--url", url, "-o", "json").json() == []
    assert cli("unpin", "alpha", "--url", url).code == 0
    assert cli("unload", "alpha", "--disk", "--wait", "1", "--url", url, "-o", "json").json()["state"] == "disk"
    assert cli("load", "nope", "--url", url).code == 1


def test_without_a_server_there_is_no_memory_to_speak_of(cli: Cli) -> None:
    for verb in (["load", "alpha"], ["unload", "alpha"], ["pin", "alpha"], ["unpin", "alpha"], ["residency"]):
        ran = cli(*verb)
        assert ran.code == 2 and "--url" in ran.err
