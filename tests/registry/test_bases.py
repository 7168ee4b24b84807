"""Bases: records that never change, by name and by digest, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError

from graftwork.access import events
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.models.base_identity import BaseIdentity
from graftwork.registry.bases import Bases, stored_manifests
from graftwork.registry.retention.deletion import Deletions

if TYPE_CHECKING:
    from support.desk import Desk

TINY = BaseIdentity("org/tiny", "main", "LlamaForCausalLM", "sha256:" + "a" * 64, "sha256:" + "b" * 64)
OTHER = replace(TINY, weights_digest="sha256:" + "c" * 64)


@pytest.fixture
def bases(desk: Desk) -> Iterator[Bases]:
    yield Bases(desk.database)


def test_the_same_content_is_one_record_and_other_content_the_next(bases: Bases) -> None:
    first, made = bases.register("local", "tiny", TINY, actor="me")
    again = bases.register("local", "tiny", replace(TINY, source="elsewhere"), actor="you")
    assert (made, again) == (True, (first, False))
    second, _ = bases.register("local", "tiny", OTHER, actor="me")
    assert (first.sequence, second.sequence, first.digest == second.digest) == (1, 2, False)
    assert bases.show("local", "tiny") == second
    for digest in (first.digest, TINY.weights_digest, first.digest[:19], TINY.weights_digest[:19]):
        assert bases.show("local", "tiny", digest) == first


def test_its_files_are_kept_once_and_read_by_who_collects_garbage(bases: Bases, desk: Desk) -> None:
    one, other = desk.manifest(1), desk.manifest(2)
    bases.register("local", "tiny", TINY, actor="me")
    stored, made = bases.register("local", "tiny", TINY, manifest=one, actor="me")
    assert (made, stored.manifest) == (True, one)
    assert bases.register("local", "tiny", TINY, manifest=other, actor="me") == (stored, False)
    with desk.database.reading() as tx:
        assert list(stored_manifests(tx, "local")) == [one]
        assert list(stored_manifests(tx, "other")) == []
        kinds = [event.kind for event in events.read_events(tx, "local", "bases/tiny")]
    assert kinds == ["base.created", "base.stored"]


def test_tenants_do_not_see_one_another(bases: Bases) -> None:
    bases.register("local", "tiny", TINY, actor="me")
    with pytest.raises(NotFound):
        bases.show("other", "tiny")
    assert bases.page("other") == ([], None)


def test_lists_come_in_pages_by_name_and_sequence(bases: Bases) -> None:
    for name in ("b", "a"):
        for identity in (TINY, OTHER):
            bases.register("local", name, identity, actor="me")
    seen, token = [], None
    while True:
        page, token = bases.page("local", page_size=3, page_token=token)
        seen += [(base.name, base.sequence) for base in page]
        if token is None:
            break
    assert seen == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    for wrong in ("b", ":1", "b:x", "b:" + "1" * 30):
        with pytest.raises(InvalidRequest):
            bases.page("local", page_token=wrong)


def test_adapters_and_bases_share_their_names(bases: Bases, desk: Desk) -> None:
    desk.push(1, "tone")
    with pytest.raises(Conflict, match="name of an adapter"):
        bases.register("local", "tone", TINY, actor="me")
    bases.register("local", "tiny", TINY, actor="me")
    with pytest.raises(Conflict, match="name of a base"):
        desk.push(1, "tiny")
    Deletions(desk.database).delete("local", "tone:1.0.0", actor="me")
    bases.register("local", "tone", TINY, actor="me")  # the adapter of that name is gone
    with pytest.raises(Conflict, match="name of a base"):
        desk.push(1, "tone")


def test_the_database_refuses_to_change_a_record(bases: Bases, desk: Desk) -> None:
    bases.register("local", "tiny", TINY, manifest=desk.manifest(1), actor="me")
    for table in ("checkpoints", "bases"):
        for change in (f"UPDATE {table} SET digest = digest", f"DELETE FROM {table}"):
            with pytest.raises(IntegrityError, match="append-only"), desk.database.transaction() as tx:
                tx.exec_driver_sql(change)
