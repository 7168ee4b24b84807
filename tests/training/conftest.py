"""A registry on the tiny base, without an engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graftwork.client import Client
from graftwork.gateway.app import build_app
from support.fixtures import Tiny


@pytest.fixture
def client(tiny: Tiny, tmp_path: Path) -> Iterator[Client]:
    settings = tiny.settings.model_copy(update={"home": tmp_path / "home"})
    with Client(app=build_app(settings, outline_of=lambda: tiny.outline)) as made:
        yield made
