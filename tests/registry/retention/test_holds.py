"""Holds: what is held stays, whatever anybody else wants; append-only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.errors import Conflict, Held, InvalidRequest, NotFound
from graftwork.registry.retention.rules import EVERY, Rules

if TYPE_CHECKING:
    from support.yard import Yard


def test_a_held_version_is_not_deleted_until_it_is_released(yard: Yard) -> None:
    yard.push("tone", b"one")
    hold, new = yard.holds.set("local", "tone:1.0.0", reason="case 7", actor="me")
    assert (new, hold.label, hold.number) == (True, "tone:1.0.0", 1)
    with pytest.raises(Held) as caught:
        yard.delete("tone:1.0.0")
    assert [(one["kind"], one["version"], one["name"]) for one in caught.value.holders] == [("hold", "tone:1.0.0", "1")]
    assert "case 7" in caught.value.message
    yard.holds.release("local", "tone:1.0.0", reason="settled", actor="me")
    yard.delete("tone:1.0.0")


def test_a_bare_name_holds_every_version_also_those_to_come(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.holds.set("local", "tone", reason="case 7", actor="me")
    yard.push("tone", b"two")
    for reference in ("tone:1.0.0", "tone:1.0.1"):
        with pytest.raises(Held):
            yard.delete(reference)
    with pytest.raises(Held):
        yard.deletions.delete_adapter("local", "tone", actor="me", in_production=True)


def test_no_rule_lets_go_what_is_held(yard: Yard) -> None:
    for number in range(3):
        yard.push("tone", bytes([number]))
    yard.retention.set("local", EVERY, Rules(keep_last=1), actor="me")
    yard.holds.set("local", "tone:1.0.0", reason="case 7", actor="me")
    assert [item.name for item in yard.collect().items if item.kind == "version"] == ["tone:1.0.1"]
    assert {version.semver for version in yard.desk.registry.list_versions("local", "tone")} == {"1.0.0", "1.0.2"}
    yard.check()


def test_holding_again_for_the_same_reason_changes_nothing_and_for_another_is_refused(yard: Yard) -> None:
    yard.push("tone", b"one")
    first, _ = yard.holds.set("local", "tone:1.0.0", reason="case 7", actor="me")
    by_digest = f"tone@{yard.desk.registry.show('local', 'tone').digest}"
    assert yard.holds.set("local", by_digest, reason="case 7", actor="me") == (first, False)
    with pytest.raises(Conflict, match="case 7"):
        yard.holds.set("local", "tone:1.0.0", reason="case 8", actor="me")
    adapter, new = yard.holds.set("local", "tone", reason="case 8", actor="me")
    assert (adapter.number, adapter.semver, new) == (2, None, True)


def test_every_hold_and_release_is_in_the_history_with_its_reason(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.holds.set("local", "tone:1.0.0", reason="case 7", actor="me")
    yard.holds.release("local", "tone:1.0.0", reason="settled", actor="you")
    with pytest.raises(NotFound, match="not held"):
        yard.holds.release("local", "tone:1.0.0", reason="settled", actor="me")
    told = yard.desk.registry.history("local", "tone")[2:]
    assert [(event.kind, event.actor, event.payload["reason"]) for event in told] == [
        ("hold.set", "me", "case 7"),
        ("hold.released", "you", "settled"),
    ]
    again, _ = yard.holds.set("local", "tone:1.0.0", reason="case 9", actor="me")
    assert again.number == 2  # a number is never given again


@pytest.mark.parametrize("change", ["UPDATE {} SET reason = 'x'", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["holds", "hold_releases"])
def test_the_records_are_append_only(yard: Yard, table: str, change: str) -> None:
    yard.push("tone", b"one")
    yard.holds.set("local", "tone:1.0.0", reason="case 7", actor="me")
    yard.holds.release("local", "tone:1.0.0", reason="settled", actor="me")
    with pytest.raises(IntegrityError), yard.desk.database.transaction() as tx:
        tx.execute(text(change.format(table)))


def test_holds_are_listed_page_by_page_and_by_tenant(yard: Yard) -> None:
    for number in range(3):
        yard.push("tone", bytes([number]))
        yard.holds.set("local", f"tone:1.0.{number}", reason="case 7", actor="me")
    first = yard.holds.list("local", page_size=2)
    assert [hold.label for hold in first.items] == ["tone:1.0.0", "tone:1.0.1"]
    last = yard.holds.list("local", page_size=2, page_token=first.next_page_token)
    assert ([hold.label for hold in last.items], last.next_page_token) == (["tone:1.0.2"], None)
    assert yard.holds.list("acme").items == ()
    with pytest.raises(InvalidRequest, match="page_token"):
        yard.holds.list("local", page_token="x")
    with pytest.raises(NotFound):
        yard.holds.set("acme", "tone:1.0.0", reason="not mine", actor="me")
