"""Diffs on both databases: written, listed, seen by gates, and gone with the records of their requests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import select

from graftwork.db import Database
from graftwork.db.schema import shadow_diffs, shadow_texts
from graftwork.errors import InvalidRequest
from graftwork.traffic.records.recording import Recording
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.shadows.diffs import Diffs, Wanted
from support.books import NOW, Books
from support.copies import copied
from support.keyrings import keyring


@pytest.fixture
def books(database_url: str) -> Iterator[Books]:
    with Database(database_url) as database:
        yield Books(database, Vault(keyring()))


@pytest.fixture
def diffs(books: Books) -> Diffs:
    return Diffs(books.database, books.vault, lambda: books.now)


def ids(diffs: Diffs, tenant: str = "local", **wanted: object) -> list[str]:
    return [one.request_id for one in diffs.page(tenant, Wanted(**wanted)).items]  # type: ignore[arg-type]


def test_what_is_written_is_read_in_pages_the_newest_first(diffs: Diffs) -> None:
    diffs.write([copied(number, tenant="acme" if number == 9 else "local") for number in range(10)])
    diffs.write([copied(11, shadow="no"), copied(12, shadow=None, error="damaged"), copied(13, route="other")])
    assert ids(diffs) == ["r13", "r12", "r11", "r8", "r7", "r6", "r5", "r4", "r3", "r2", "r1", "r0"]
    first = diffs.page("local", Wanted(), page_size=5)
    second = diffs.page("local", Wanted(), page_size=7, page_token=first.next_page_token or "")
    assert [one.request_id for one in (*first.items, *second.items)] == ids(diffs)
    assert second.next_page_token is None
    assert ids(diffs, outcome="error") == ["r12"] and ids(diffs, exact=False) == ["r11"]
    assert ids(diffs, route="other") == ["r13"] and ids(diffs, "acme") == ["r9"] and ids(diffs, "nobody") == []
    assert ids(diffs, since=copied(12).at, until=copied(13).at) == ["r12"]
    for token in ("odd", "~", f"{copied(1).at}~r1"):
        with pytest.raises(InvalidRequest):
            diffs.page("local", Wanted(), page_token=token)


def test_hashes_are_the_tenants_own_and_texts_are_sealed(diffs: Diffs, books: Books) -> None:
    diffs.write([copied(1, keep_text=True), copied(2, shadow="no"), copied(3, tenant="acme")])
    assert diffs.page("local", Wanted()).items[0].answer_hash != diffs.page("local", Wanted()).items[0].shadow_hash
    one, other = diffs.page("local", Wanted()).items[1], diffs.page("acme", Wanted()).items[0]
    assert one.answer_hash == one.shadow_hash != other.shadow_hash
    ((diff, said),) = diffs.of_request("local", "r1")
    assert (diff.request_id, said) == ("r1", ["yes"])
    assert [text for _, text in diffs.of_request("local", "r2")] == [None] and diffs.of_request("acme", "r1") == []
    with books.database.reading() as tx:
        assert "yes" not in str(tx.execute(select(shadow_texts)).all())


def test_gates_see_copies_as_answers_with_their_likeness_as_scores(diffs: Diffs) -> None:
    diffs.write([copied(1), copied(2, shadow=""), copied(3, shadow=None, error="timed_out"), copied(4, arm="b")])
    same, empty, late = diffs.observations("local", "support", rollout="support/1", arm="candidate", since=copied(0).at)
    assert (same.outcome, same.latency_s, same.feedback) == (
        "ok",
        0.2,
        {"exact": 1.0, "normalised": 1.0, "similarity": 1.0},
    )
    assert empty.empty and empty.feedback["similarity"] == 0.0
    assert (late.outcome, late.feedback, late.arm) == ("error", {}, "candidate")


def test_diffs_go_with_the_days_of_records_and_texts_with_those_of_texts(diffs: Diffs, books: Books) -> None:
    books.recordings.set("local", Recording(keep_days=5, keep_text=True, text_days=2), actor="me")
    diffs.write([copied(1, keep_text=True), copied(2, tenant="acme")])
    books.now = NOW + timedelta(days=3)
    books.records.sweep()
    assert [text for _, text in diffs.of_request("local", "r1")] == [None]
    books.now = NOW + timedelta(days=6)
    books.records.sweep()
    assert ids(diffs) == [] and ids(diffs, "acme") == ["r2"], "though no record of theirs was ever written"


def test_a_user_is_forgotten_with_what_was_copied_of_him(diffs: Diffs, books: Books) -> None:
    books.write(books.record(1, user_id="ann"), books.record(2, user_id="bob"))
    diffs.write([copied(number, user_id="ann", keep_text=True) for number in (1, 3)])
    diffs.write([copied(2, user_id="bob"), copied(4, user_id="ann", tenant="acme")])
    assert books.records.forget("local", "ann", actor="me") == 1
    assert ids(diffs) == ["r2"] and ids(diffs, "acme") == ["r4"]
    with books.database.reading() as tx:
        assert not tx.execute(select(shadow_texts)).all() and len(tx.execute(select(shadow_diffs)).all()) == 2
