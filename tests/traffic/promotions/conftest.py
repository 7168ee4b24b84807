"""A court with three versions of one adapter, of which the first is in production."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.court import Court
from support.desk import Desk


@pytest.fixture
def court(database_url: str) -> Iterator[Court]:
    desk = Desk(database_url)
    for content in (1, 2, 3):
        desk.push(content, "support", semver=f"{content}.0.0")
    desk.promote("support:1.0.0")
    yield Court(desk)
    desk.database.close()
