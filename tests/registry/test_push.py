"""Registering versions: numbers, identity, immutability, events."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.versions import Version

if TYPE_CHECKING:
    from support.desk import Desk


def test_the_first_push_is_version_one(desk: Desk) -> None:
    version = desk.push(1, metadata={"team": "support"})
    assert (version.adapter, version.semver, version.sequence, version.stage) == (
        "tone",
        "1.0.0",
        1,
        "development",
    )
    assert version.digest == desk.manifest(1).digest()
    assert version.label == "tone:1.0.0"
    assert version.created_at == "2026-01-31T09:30:00.000001Z"
    assert version.created_by == "me"
    assert version == desk.registry.show("local", "tone")


def test_pushes_without_a_version_count_the_last_place_up(desk: Desk) -> None:
    assert [desk.push(content).semver for content in (1, 2, 3)] == ["1.0.0", "1.0.1", "1.0.2"]
    assert desk.push(4, semver="2.0").semver == "2.0.0"
    assert desk.push(5, semver="1.5.0").semver == "1.5.0"
    assert desk.push(6, semver="3.0.0-rc.1").semver == "3.0.0-rc.1"
    last = desk.push(7)
    assert (last.semver, last.sequence) == ("2.0.1", 7)


def test_second_push_of_the_same_bytes_is_the_same_version(desk: Desk) -> None:
    first = desk.push(1, metadata={"a": 1})
    desk.push(2)
    for said in (None, {}, {"a": 1}):
        again, created = desk.try_push(1, metadata=said)
        assert not created
        assert again == first
        assert again.metadata == {"a": 1}
    assert desk.try_push(1, semver="1.0") == (first, False)
    assert len(desk.registry.history("local", "tone")) == 3  # adapter created, two versions


def test_the_same_bytes_with_other_metadata_are_a_conflict_naming_the_fields(desk: Desk) -> None:
    """What was said is never dropped without a word; what was not said contradicts nothing."""
    registered = {"task": "chat", "training": {"metrics": {"loss": 0.5, "lr": 1}}, "language": ["en", "de"]}
    first = desk.push(1, metadata=registered)
    assert desk.try_push(1, metadata={"training": {"metrics": {"loss": 0.5}}, "language": ["en", "de"]})[0] == first
    with pytest.raises(Conflict, match=r"tone:1\.0\.0 has these bytes and other metadata: training\.metrics\.loss, "
                       r"language, license\."):  # fmt: skip
        desk.try_push(1, metadata={"task": "chat", "training": {"metrics": {"loss": 0.4}}, "language": ["en"],
                                   "license": "mit"})  # fmt: skip
    assert len(desk.registry.history("local", "tone")) == 2 and desk.push(1, "copy", metadata={"license": "mit"})


def test_the_same_bytes_with_another_explicit_version_are_a_conflict_naming_the_first(desk: Desk) -> None:
    desk.push(1)
    with pytest.raises(Conflict, match=r"tone:1\.0\.0 already"):
        desk.try_push(1, semver="2.0.0")


@pytest.mark.parametrize("first", [1, 2])
def test_the_same_bytes_are_named_also_where_the_version_has_other_bytes(desk: Desk, first: int) -> None:
    desk.push(first, semver=f"{first}.0.0")
    desk.push(3 - first, semver=f"{3 - first}.0.0")
    with pytest.raises(Conflict, match=r"tone:1\.0\.0 already"):
        desk.try_push(1, semver="2.0.0")


def test_the_same_bytes_under_another_name_are_a_version_there(desk: Desk) -> None:
    assert desk.push(1, "tone").digest == desk.push(1, "voice").digest


def test_the_same_bytes_for_another_base_are_a_conflict(desk: Desk) -> None:
    desk.push(1)
    with pytest.raises(Conflict, match="another name"):
        desk.try_push(1, base_digest="sha256:" + "c" * 64)


def test_a_taken_version_with_other_bytes_is_a_conflict(desk: Desk) -> None:
    desk.push(1, semver="1.4.0")
    with pytest.raises(Conflict, match=r"tone:1\.4\.0 is there already"):
        desk.try_push(2, semver="v1.4")
    assert len(desk.registry.list_versions("local", "tone")) == 1


def test_a_refused_push_uses_up_no_number_and_leaves_no_adapter(desk: Desk) -> None:
    with pytest.raises(InvalidRequest):
        desk.try_push(1, metadata={"x": float("nan")})
    with pytest.raises(NotFound):
        desk.registry.list_versions("local", "tone")
    assert desk.push(1).sequence == 1


@pytest.mark.parametrize("metadata", [{"x": "a" * (1 << 18)}, ["a"], "a", {1: 2}, {"x": 2**60}])
def test_metadata_that_cannot_be_kept_is_refused(desk: Desk, metadata: Any) -> None:
    with pytest.raises(InvalidRequest, match="metadata"):
        desk.try_push(1, metadata=metadata)


@pytest.mark.parametrize("name", ["", "Tone", "a/b", "latest", "v1", "default", "../x", "é"])
def test_a_name_outside_the_grammar_is_refused(desk: Desk, name: str) -> None:
    with pytest.raises(InvalidRequest):
        desk.try_push(1, name)


@pytest.mark.parametrize("semver", ["", "1", "latest", "1.0.0.0", "x"])
def test_a_version_that_is_no_semantic_version_is_refused(desk: Desk, semver: str) -> None:
    with pytest.raises(InvalidRequest):
        desk.try_push(1, semver=semver)


def test_metadata_cannot_change_after_registration(desk: Desk) -> None:
    mine: dict[str, Any] = {"tags": ["a"], "nested": {"k": 1}}
    version = desk.push(1, metadata=mine)
    mine["tags"].append("b")
    mine["nested"]["k"] = 2
    for held in (version, desk.registry.show("local", "tone")):
        assert json.loads(json.dumps(held.metadata)) == {"tags": ["a"], "nested": {"k": 1}}
        assert held.metadata is not None
        with pytest.raises(TypeError, match="immutable"):
            held.metadata["nested"]["k"] = 3
        with pytest.raises(dataclasses.FrozenInstanceError):
            held.metadata = {}  # type: ignore[misc]


STATE = ("stage", "aliases", "approval", "signed_by", "deprecated", "forbidden")
FROZEN = [field.name for field in dataclasses.fields(Version) if field.name not in (*STATE, "same_content_as")]


@pytest.mark.parametrize("column", FROZEN)
def test_the_database_refuses_to_change_a_version(desk: Desk, column: str) -> None:
    desk.push(1)
    with pytest.raises(IntegrityError), desk.database.transaction() as tx:
        tx.execute(text(f"UPDATE versions SET {column} = {column}"))


def test_shown_versions_have_metadata_and_account_and_listed_ones_do_not(desk: Desk) -> None:
    account = {"ok": True, "tensors": [{"name": "a", "scale": 0.5}]}
    pushed = desk.push(1, account=account, metadata={"a": 1})
    shown = desk.registry.show("local", "tone")
    for version in (pushed, shown, desk.promote("tone")):
        data = json.loads(json.dumps(version.to_json()))
        assert (data["account"], data["metadata"]) == (account, {"a": 1})
    (listed,) = desk.registry.list_versions("local", "tone")
    (summary,) = desk.registry.list_adapters("local").items
    for version in (listed, summary.newest):
        assert (version.account, version.metadata) == (None, None)
        assert not {"account", "metadata"} & version.to_json().keys()


def test_odd_text_in_metadata_and_reasons_reads_back_exactly(desk: Desk) -> None:
    actor = "' OR 1=1 -- \" \\ ` % _ é e\u0301 😀 \n"  # an actor is nobody's free text: PostgreSQL keeps no NUL
    odd = f"{actor}\u0000"
    desk.push(1, metadata={odd: odd})
    desk.registry.promote("local", "tone", actor=actor, reason=odd)
    assert desk.registry.show("local", "tone").metadata == {odd: odd}
    last = desk.registry.history("local", "tone")[-1]
    assert (last.actor, last.payload["reason"]) == (actor, odd)


def test_every_change_writes_its_event(desk: Desk) -> None:
    desk.push(1)
    desk.push(2)
    desk.registry.set_alias("local", "tone", "champion", "tone:1.0.0", actor="me")
    desk.promote("tone:1.0.0")
    desk.promote("tone:1.0.1")
    desk.registry.rollback("local", "tone", actor="me", reason="worse")
    desk.registry.remove_alias("local", "tone", "champion", actor="me")
    history = desk.registry.history("local", "tone")
    assert [event.kind for event in history] == [
        *("adapter.created", "version.created", "version.created", "alias.set", "version.promoted"),
        *("version.promoted", "version.rolled_back", "alias.removed"),
    ]
    assert {event.subject for event in history} == {"adapters/tone"}
    assert history[6].payload["reason"] == "worse"
    assert [event.at for event in history] == sorted(event.at for event in history)
    with desk.database.reading() as tx:
        assert verify_chain(tx) == len(history)


def test_a_change_whose_event_fails_does_not_happen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.push(1)

    def fail(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("the log is full")

    monkeypatch.setattr("graftwork.access.events.append", fail)
    attempts: list[Callable[[], object]] = [
        lambda: desk.try_push(2),
        lambda: desk.promote("tone"),
        lambda: desk.registry.set_alias("local", "tone", "champion", "tone", actor="me"),
    ]
    for attempt in attempts:
        with pytest.raises(RuntimeError, match="log is full"):
            attempt()
    monkeypatch.undo()
    (version,) = desk.registry.list_versions("local", "tone")
    assert (version.stage, version.aliases) == ("development", ())


def test_tenants_do_not_see_one_another(desk: Desk) -> None:
    desk.push(1, tenant="acme")
    unknown: list[Callable[[str], object]] = [
        lambda name: desk.registry.show("local", name),
        lambda name: desk.registry.list_versions("local", name),
        lambda name: desk.registry.history("local", name),
        lambda name: desk.promote(name),
        lambda name: desk.registry.rollback("local", name, actor="me"),
    ]
    for attempt in unknown:
        messages = set()
        for name in ("tone", "nope"):
            with pytest.raises(NotFound) as caught:
                attempt(name)
            messages.add(caught.value.message.replace(name, "NAME"))
        assert len(messages) == 1
    assert desk.push(2).sequence == 1
    assert desk.registry.show("acme", "acme/tone").digest == desk.manifest(1).digest()
    for reference in ("acme/tone", "acme/tone:1.0.0", "nobody/tone"):
        with pytest.raises(NotFound):
            desk.registry.show("local", reference)
