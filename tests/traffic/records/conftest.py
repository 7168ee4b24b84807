"""Records on either database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graftwork.db import Database
from graftwork.traffic.records.vault import Vault
from support.books import Books


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    with Database(database_url) as database:
        yield Books(database, Vault(None))
