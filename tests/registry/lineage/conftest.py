"""A graph beside a registry, on both databases, and versions in it by short names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graftwork.registry.lineage.lineage import Lineage

if TYPE_CHECKING:
    from support.desk import Desk


@pytest.fixture
def lineage(desk: Desk) -> Lineage:
    return Lineage(desk.database)
