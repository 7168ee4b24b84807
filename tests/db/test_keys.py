"""Keys: rows at many keys at once, whatever stands in them, on both databases."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, select

from graftwork.db import Database
from graftwork.db.keys import rows_at

THINGS = Table(
    "things", MetaData(), Column("name", Text, primary_key=True), Column("number", BigInteger, primary_key=True)
)
ODD = ["", "a", "'", '"', "\\", "\\u0000", "{}", "$[0]", "é", "e\u0301", "😀", "%s", "?", ":a", "1", "null"]


def test_only_rows_whose_whole_key_was_asked_for_are_found(empty_url: str) -> None:
    numbers = [0, 1, 2**53 + 1, -(2**63), 2**63 - 1]
    kept = {(name, number) for name in ODD for number in numbers}
    wanted = {(name, number) for name, number in kept if (len(name) + number) % 2}
    with Database(empty_url) as database, database.transaction() as tx:
        THINGS.create(tx)
        tx.execute(THINGS.insert(), [{"name": name, "number": number} for name, number in kept])
        found = rows_at(tx, select(THINGS), (THINGS.c.name, THINGS.c.number), [*wanted, ("a", 77), ("b", 0)])
        assert {tuple(row) for row in found} == wanted
        assert list(rows_at(tx, select(THINGS), (THINGS.c.name, THINGS.c.number), [])) == []


def test_more_keys_than_are_asked_for_at_once_are_all_found(empty_url: str) -> None:
    with Database(empty_url) as database, database.transaction() as tx:
        THINGS.create(tx)
        tx.execute(THINGS.insert(), [{"name": "a", "number": number} for number in range(3000)])
        keys = [("a", number) for number in range(0, 3000, 2)]
        assert {row.number for row in rows_at(tx, select(THINGS), (THINGS.c.name, THINGS.c.number), keys)} == {
            number for _, number in keys
        }
