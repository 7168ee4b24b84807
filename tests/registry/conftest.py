"""Desks, each on a database of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from hypothesis import settings

from support.databases import NewDatabase
from support.desk import Desk

# On a busy machine a deadline would fail what is right.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture
def make_desk(new_database: NewDatabase) -> Iterator[Callable[[], Desk]]:
    """Makes desks, each on a new database, and closes them at the end."""
    with ExitStack() as stack:

        def make() -> Desk:
            desk = Desk(stack.enter_context(new_database()))
            stack.callback(desk.database.close)
            return desk

        yield make


@pytest.fixture
def desk(make_desk: Callable[[], Desk]) -> Desk:
    return make_desk()
