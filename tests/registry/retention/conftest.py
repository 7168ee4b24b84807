"""Yards, each on a database of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.desk import Desk
from support.yard import Yard


@pytest.fixture
def make_yard(make_desk: Callable[[], Desk], tmp_path: Path) -> Callable[..., Yard]:
    def make(store_url: str = "") -> Yard:
        root = tmp_path / f"yard-{len(list(tmp_path.glob('yard-*')))}"
        root.mkdir()
        return Yard(make_desk(), root, store_url=store_url)

    return make


@pytest.fixture
def yard(make_yard: Callable[..., Yard]) -> Yard:
    return make_yard()
