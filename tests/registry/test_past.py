"""How an adapter stood at a time, by the log alone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from graftwork.access.clock import timestamp
from graftwork.errors import NotFound
from graftwork.registry.reference import parse_reference
from graftwork.registry.retention.deletion import Deletions

if TYPE_CHECKING:
    from support.desk import Desk


def now(desk: Desk) -> str:
    return timestamp(desk.clock())


def test_every_reference_means_at_a_time_what_it_meant_then(desk: Desk) -> None:
    start = now(desk)
    desk.push(1)
    pushed = now(desk)
    desk.push(2)
    desk.promote("tone:1.0.0")
    promoted = now(desk)
    desk.approve("tone:1.0.1")
    desk.lifecycle.deprecate("local", "tone:1.0.1", "Do not.", actor="me")
    desk.promote("tone:1.0.1")
    replaced = now(desk)
    desk.lifecycle.undeprecate("local", "tone:1.0.1", actor="me")
    desk.registry.rollback("local", "tone", actor="me")
    desk.demand("serving")

    def then(reference: str, at: str) -> tuple[str, str, tuple[str, ...], str, bool]:
        found = desk.registry.show("local", reference, at=at)
        assert found.account is not None
        return found.semver, found.stage, found.aliases, found.approval, found.deprecated is not None

    for reference in ("tone", "tone:1.0.0"):
        with pytest.raises(NotFound, match=r"had no version at 2026"):
            desk.registry.show("local", reference, at=start)
    assert then("tone", pushed) == ("1.0.0", "development", (), "pending", False)
    assert then("tone@production", promoted) == ("1.0.0", "production", ("production",), "pending", False)
    assert then("tone:1.0.1", promoted) == ("1.0.1", "development", (), "pending", False)
    assert then("tone@production", replaced) == ("1.0.1", "production", ("production",), "approved", True)
    assert then("tone@previous", replaced) == ("1.0.0", "archived", ("previous",), "pending", False)
    assert then("tone", now(desk)) == ("1.0.0", "production", ("production",), "pending", False)
    assert desk.registry.show("local", "tone", at=replaced).forbidden == ()
    assert desk.registry.show("local", "tone", at=now(desk)) == desk.registry.show("local", "tone")
    with pytest.raises(NotFound):
        desk.registry.show("local", "tone:1.0.1", at=pushed)


def test_an_alias_has_its_whole_history_and_says_who_moved_it_there_and_why(desk: Desk) -> None:
    for content in (1, 2):
        desk.push(content)
    moves = [("tone:1.0.0", "ann", "first"), ("tone:1.0.1", "bob", "better")]
    times = []
    for target, actor, reason in moves:
        desk.registry.set_alias("local", "tone", "champion", target, actor=actor, reason=reason)
        times.append(now(desk))
    desk.promote("tone:1.0.0")
    for at, (target, actor, reason) in zip(times, moves, strict=True):
        then = desk.registry.alias("local", "tone", "champion", at=at)
        assert (f"tone:{then.version}", then.moved_by, then.reason) == (target, actor, reason)
    assert [pointer.alias for pointer in desk.registry.aliases("local", "tone")] == ["champion", "production"]
    desk.registry.remove_alias("local", "tone", "champion", actor="ann", reason="done")
    told = desk.registry.history("local", "tone", alias="champion")
    assert [(event.kind, event.actor, event.payload["reason"]) for event in told] == [
        *(("alias.set", actor, reason) for _, actor, reason in moves),
        ("alias.removed", "ann", "done"),
    ]
    with pytest.raises(NotFound, match="no alias tone@champion"):
        desk.registry.alias("local", "tone", "champion")


def test_a_clock_that_was_set_back_never_shows_an_order_that_was_not(desk: Desk) -> None:
    for content in (1, 2):
        desk.push(content)
    desk.promote("tone:1.0.0")
    first = now(desk)
    desk.clock.now -= timedelta(hours=1)
    desk.promote("tone:1.0.1")
    later = now(desk)
    assert later < first
    for at in (later, first):
        assert desk.registry.show("local", "tone@production", at=at).semver == "1.0.1"
    before = timestamp(desk.clock.now - timedelta(minutes=1))
    with pytest.raises(NotFound):
        desk.registry.show("local", parse_reference("tone@production"), at=before)


def test_what_was_deleted_since_is_told_and_shown_to_nobody(desk: Desk) -> None:
    deletion = Deletions(desk.database, desk.clock)
    for content in (1, 2):
        desk.push(content)
    desk.promote("tone:1.0.0")
    before = now(desk)
    desk.promote("tone:1.0.1")
    deletion.delete_adapter("local", "tone", actor="me", in_production=True)
    after = now(desk)
    desk.push(3)
    desk.push(1)  # the same bytes again are another version
    for reference in ("tone", "tone@production", "tone:1.0.0"):
        with pytest.raises(NotFound, match=r"tone:1\.0\.0 has been deleted since"):
            desk.registry.show("local", reference, at=before)
    assert desk.registry.alias("local", "tone", "production", at=before).version == "1.0.0"
    with pytest.raises(NotFound, match="had no version at"):
        desk.registry.show("local", "tone", at=after)
    assert desk.registry.aliases("local", "tone", at=after) == desk.registry.aliases("local", "tone") == []
    assert desk.registry.show("local", "tone", at=now(desk)) == desk.registry.show("local", "tone")
