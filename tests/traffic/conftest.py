"""A desk with three versions of one adapter, of which the first is in production, and rollouts by a set clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.desk import Desk
from support.rollouts import Bench


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    desk = Desk(database_url)
    for content in (1, 2, 3):
        desk.push(content, "support", semver=f"{content}.0.0")
    desk.promote("support:1.0.0")
    yield Bench(desk)
    desk.database.close()
