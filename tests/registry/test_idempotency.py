"""Idempotency keys: done once, answered the same, on both databases."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from graftwork.access.events import head
from graftwork.errors import Conflict
from graftwork.registry.idempotency import KEPT, Once
from graftwork.registry.registry import Registry

if TYPE_CHECKING:
    from support.desk import Desk

ONE, OTHER = Once("key", "sha256:" + "1" * 64), Once("key", "sha256:" + "2" * 64)


def position(desk: Desk) -> int:
    with desk.database.reading() as tx:
        return head(tx)


def push(desk: Desk, content: int, once: Once, registry: Registry | None = None) -> Any:
    return (registry or desk.registry).push(
        *("local", "tone", desk.manifest(content)),
        kind="lora", base="tiny", base_digest="sha256:" + "b" * 64, rank=8, bytes=8, account={"ok": True},
        metadata={"team": "blue"}, actor="me", once=once,
    )  # fmt: skip


def test_a_push_that_is_repeated_is_answered_as_it_was_whatever_happened_since(desk: Desk) -> None:
    first = push(desk, 1, ONE)
    desk.promote("tone:1.0.0")
    desk.push(2)
    before = position(desk)
    assert push(desk, 1, ONE) == first
    assert (first[0].stage, first[0].metadata, first[1]) == ("development", {"team": "blue"}, True)
    assert position(desk) == before


def test_a_rollback_that_is_repeated_goes_back_one_step(desk: Desk) -> None:
    for content in range(3):
        desk.push(content)
        desk.promote(f"tone:1.0.{content}")
    answers = {desk.registry.rollback("local", "tone", actor="me", once=ONE).semver for _ in range(3)}
    assert answers == {"1.0.1"}
    assert desk.registry.show("local", "tone").semver == "1.0.1"


def test_a_promotion_that_is_repeated_later_does_not_undo_what_came_between(desk: Desk) -> None:
    desk.push(1)
    desk.push(2)
    desk.registry.promote("local", "tone:1.0.0", actor="me", once=ONE)
    desk.promote("tone:1.0.1")
    again = desk.registry.promote("local", "tone:1.0.0", actor="me", once=ONE)
    assert (again.semver, again.stage, again.aliases) == ("1.0.0", "production", ("production",))
    assert desk.registry.show("local", "tone").semver == "1.0.1"


def test_a_key_of_another_request_is_a_conflict_and_changes_nothing(desk: Desk) -> None:
    push(desk, 1, ONE)
    before = position(desk)
    with pytest.raises(Conflict, match="Idempotency-Key 'key'"):
        push(desk, 2, OTHER)
    with pytest.raises(Conflict):
        desk.registry.promote("local", "tone", actor="me", once=OTHER)
    assert position(desk) == before


def test_keys_of_tenants_are_their_own(desk: Desk) -> None:
    push(desk, 1, ONE)
    desk.push(1, tenant="acme")
    assert desk.registry.promote("acme", "tone", actor="me", once=OTHER).stage == "production"


def test_what_was_refused_may_be_tried_again_under_the_same_key(desk: Desk) -> None:
    desk.push(1)
    with pytest.raises(Conflict, match="no earlier"):
        desk.registry.rollback("local", "tone", actor="me", once=ONE)
    for content in (2, 3):
        desk.promote(f"tone:{desk.push(content).semver}")
    assert desk.registry.rollback("local", "tone", actor="me", once=ONE).semver == "1.0.1"


def test_the_same_request_from_many_threads_at_once_is_one_change(desk: Desk) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(push(desk, 1, ONE))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [created for _, created in answers] == [True] * 16
    assert {version.sequence for version, _ in answers} == {1}
    assert position(desk) == 2


def test_keys_are_forgotten_after_their_time(desk: Desk) -> None:
    push(desk, 1, ONE)
    start = desk.registry._clock()
    late = Registry(desk.database, lambda: start + KEPT + timedelta(minutes=1))
    push(desk, 2, Once("new", ONE.fingerprint), late)
    with desk.database.reading() as tx:
        assert tx.execute(text("SELECT key FROM idempotency_keys")).scalars().all() == ["new"]
    assert push(desk, 3, OTHER, late)[1]
