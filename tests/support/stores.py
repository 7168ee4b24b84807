"""Fixtures of object stores: one server of each for the session, started by the first test that asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.object_stores import ObjectServer, azurite, seaweedfs


@pytest.fixture(scope="session")
def _seaweedfs() -> Iterator[ObjectServer]:
    with seaweedfs() as server:
        yield server


@pytest.fixture(scope="session")
def _azurite() -> Iterator[ObjectServer]:
    with azurite() as server:
        yield server


@pytest.fixture
def seaweedfs_server(_seaweedfs: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """S3, with what the environment must hold to use it."""
    return _in_environment(_seaweedfs, monkeypatch)


@pytest.fixture
def azurite_server(_azurite: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """Azure, with what the environment must hold to use it."""
    return _in_environment(_azurite, monkeypatch)


def _in_environment(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server
