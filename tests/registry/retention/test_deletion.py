"""Deletions: who holds a version is told, what is gone stays in the log, and no number is given twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, Held, InvalidRequest, NotFound, UnknownModel
from graftwork.protocol.canonical import sha256
from graftwork.registry.descriptions import Descriptions
from graftwork.registry.idempotency import Once
from graftwork.registry.reference import parse_reference
from graftwork.registry.retention.rules import EVERY, Rules
from graftwork.registry.search.search import Searches
from graftwork.registry.snapshot import SnapshotReader, read_snapshot
from graftwork.registry.tags import Tags

if TYPE_CHECKING:
    from support.desk import Desk
    from support.yard import Yard


def holders(delete: Callable[[], object]) -> list[tuple[str, str, str]]:
    with pytest.raises(Held) as caught:
        delete()
    return [(one["kind"], one["version"], one["name"]) for one in caught.value.holders]


def semvers(yard: Yard, name: str = "tone") -> list[str]:
    return [version.semver for version in yard.desk.registry.list_versions("local", name)]


def test_a_version_that_nobody_needs_is_gone_from_every_view(yard: Yard) -> None:
    reader = SnapshotReader(yard.desk.database)
    yard.push("tone", b"one")
    second = yard.push("tone", b"two")
    reader.current()
    assert yard.delete("tone:1.0.1") == second
    assert semvers(yard) == ["1.0.0"]
    for reference in ("tone:1.0.1", "adapters:/tone/2", f"tone@{second.digest}"):
        with pytest.raises(NotFound, match=r"was deleted at 20.*`graftwork history tone` tells of it"):
            yard.desk.registry.show("local", reference)
        with pytest.raises(UnknownModel):
            reader.current().resolve("local", parse_reference(reference))
    assert yard.desk.registry.show("local", "tone").semver == "1.0.0"  # what a bare name means
    assert not yard.desk.registry.has_digest("local", second.digest)
    assert [item.versions for item in yard.desk.registry.list_adapters("local").items] == [1]
    assert reader.current() == read_snapshot(yard.desk.database)
    with pytest.raises(NotFound):
        yard.delete("tone:1.0.1")


def test_the_log_keeps_what_it_was(yard: Yard) -> None:
    made = yard.push("tone", b"one")
    yard.push("tone", b"two")
    yard.delete("tone:1.0.0", reason="contract ended")
    event = yard.desk.registry.history("local", "tone")[-1]
    assert (event.kind, event.actor) == ("version.deleted", "me")
    told = {"sequence": 1, "version": "1.0.0", "digest": made.digest, "stage": "development", "kind": "lora"}
    assert told.items() <= event.payload.items()
    assert event.payload["reason"] == "contract ended"
    with yard.desk.database.reading() as tx:
        verify_chain(tx)


def test_no_number_is_given_twice(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.push("tone", b"two", semver="2.0.0")
    yard.delete("tone:2.0.0")
    with pytest.raises(Conflict, match=r"tone:2\.0\.0 was deleted at 20.*no number is given twice"):
        yard.push("tone", b"three", semver="2.0.0")
    with pytest.raises(Conflict, match="was deleted at"):
        yard.push("tone", b"two", semver="2.0.0")
    again = yard.push("tone", b"two")
    assert (again.sequence, again.semver) == (3, "2.0.1")
    yard.delete("tone:2.0.1")
    assert yard.push("tone", b"two").sequence == 4


def test_a_deleted_row_is_immutable_and_stays(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.push("tone", b"two")
    yard.delete("tone:1.0.0")
    for change in (
        "UPDATE versions SET stage = 'staging' WHERE sequence = 1",
        "UPDATE versions SET deleted_at = NULL WHERE sequence = 1",
        "DELETE FROM versions WHERE sequence = 1",
        "DELETE FROM versions WHERE sequence = 2",
    ):
        with pytest.raises(IntegrityError), yard.desk.database.transaction() as tx:
            tx.execute(text(change))


def test_whoever_needs_it_is_listed(yard: Yard) -> None:
    for number in range(3):
        yard.push("tone", bytes([number]))
        yard.desk.promote(f"tone:1.0.{number}")
    yard.desk.registry.set_alias("local", "tone", "champion", "tone:1.0.1", actor="me")
    yard.holds.set("local", "tone:1.0.1", reason="case 7", actor="me")
    yard.push("voice", b"child", parents=["tone:1.0.1"])
    assert holders(lambda: yard.delete("tone@production")) == [("production", "tone:1.0.2", "production")]
    assert holders(lambda: yard.delete("tone:1.0.1")) == [
        ("alias", "tone:1.0.1", "champion"),
        ("alias", "tone:1.0.1", "previous"),
        ("rollback", "tone:1.0.1", "1"),
        ("derivative", "tone:1.0.1", "voice:1.0.0"),
        ("hold", "tone:1.0.1", "1"),
    ]
    assert holders(lambda: yard.delete("tone:1.0.0")) == [("rollback", "tone:1.0.0", "2")]
    yard.retention.set("local", EVERY, Rules(keep_rollbacks=1), actor="me")
    yard.delete("tone:1.0.0")


@pytest.mark.parametrize("field", ["parents", "merged_from"])
@pytest.mark.parametrize("named", ["tone:1.0.0", "tone@1.0.0", "adapters:/tone/1"])
def test_a_derivative_holds_however_it_names_its_parent(yard: Yard, named: str, field: str) -> None:
    parent = yard.push("tone", b"one")
    named = named.replace("@1.0.0", f"@{parent.digest}")
    said: dict[str, Any] = {field: [named]}
    yard.push("tone", b"two", **said)
    assert holders(lambda: yard.delete("tone:1.0.0")) == [("derivative", "tone:1.0.0", "tone:1.0.1")]
    yard.delete("tone:1.0.1")
    yard.delete("tone:1.0.0")


def test_another_tenants_versions_hold_nothing(yard: Yard, desk: Desk) -> None:
    yard.push("tone", b"one")
    yard.desk.push(8, "tone", tenant="acme")
    yard.desk.push(9, "tone", tenant="acme", metadata={"parents": ["tone:1.0.0"]})
    yard.delete("tone:1.0.0")
    with pytest.raises(NotFound):
        yard.deletions.delete("local", "acme/tone:1.0.0", actor="me")


def test_a_bare_name_is_refused_where_one_version_is_meant(yard: Yard) -> None:
    yard.push("tone", b"one")
    with pytest.raises(InvalidRequest, match=r"whole adapter.*`graftwork delete tone --all-versions`"):
        yard.delete("tone")
    with pytest.raises(NotFound, match="no adapter nosuch"):
        yard.delete("nosuch")
    assert semvers(yard) == ["1.0.0"]


def test_a_whole_adapter_goes_with_its_aliases_and_counts_on_when_it_comes_back(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.push("tone", b"two", parents=["tone:1.0.0"])  # they go together
    yard.push("voice", b"three")
    yard.desk.registry.set_alias("local", "tone", "champion", "tone:1.0.0", actor="me")
    reader = SnapshotReader(yard.desk.database)
    assert reader.current().names("local") == ("tone", "voice")
    gone = yard.deletions.delete_adapter("local", "tone", actor="me", reason="contract ended")
    assert [version.semver for version in gone] == ["1.0.0", "1.0.1"]
    assert reader.current().names("local") == ("voice",)
    assert reader.current() == read_snapshot(yard.desk.database)
    assert [item.name for item in yard.desk.registry.list_adapters("local").items] == ["voice"]
    with pytest.raises(NotFound):
        yard.desk.registry.list_versions("local", "tone")
    last = yard.desk.registry.history("local", "tone")[-1]
    assert (last.kind, list(last.payload["aliases"])) == ("adapter.deleted", ["champion"])
    back = yard.push("tone", b"one")
    assert (back.sequence, back.semver, back.aliases) == (3, "1.0.2", ())


def test_an_adapter_in_production_goes_only_when_that_is_said(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.desk.promote("tone:1.0.0")
    delete = yard.deletions.delete_adapter
    assert holders(lambda: delete("local", "tone", actor="me")) == [("production", "tone:1.0.0", "production")]
    yard.push("voice", b"child", parents=["tone:1.0.0"])
    assert holders(lambda: delete("local", "tone", actor="me", in_production=True)) == [
        ("derivative", "tone:1.0.0", "voice:1.0.0")
    ]
    yard.delete("voice:1.0.0")
    delete("local", "tone", actor="me", in_production=True)
    yard.push("tone", b"two")
    assert yard.desk.promote("tone:1.0.1").stage == "production"
    with pytest.raises(Conflict, match="no earlier production version"):
        yard.desk.registry.rollback("local", "tone", actor="me")


def test_rollbacks_step_over_what_was_deleted(yard: Yard) -> None:
    for number in range(4):
        yard.push("tone", bytes([number]))
    yard.retention.set("local", EVERY, Rules(keep_rollbacks=1), actor="me")
    for number in (0, 1, 0, 2, 1, 3):  # the trail of production versions
        yard.desk.promote(f"tone:1.0.{number}")
    yard.delete("tone:1.0.2")  # from the middle; what is left is 0, 1, 0, 1, 3

    def rollback() -> str:
        return yard.desk.registry.rollback("local", "tone", actor="me").semver

    assert [rollback() for _ in range(4)] == ["1.0.1", "1.0.0", "1.0.1", "1.0.0"]
    with pytest.raises(Conflict, match="no earlier"):
        rollback()
    assert yard.desk.stages() == {"1.0.0": "production", "1.0.1": "archived", "1.0.3": "archived"}


def test_a_step_from_a_version_to_itself_is_none(yard: Yard) -> None:
    for number in range(4):
        yard.push("tone", bytes([number]))
    yard.retention.set("local", EVERY, Rules(keep_rollbacks=0), actor="me")
    for number in (0, 1, 2, 1, 3):
        yard.desk.promote(f"tone:1.0.{number}")
    yard.delete("tone:1.0.2")
    assert yard.desk.registry.rollback("local", "tone", actor="me").semver == "1.0.1"
    assert yard.desk.registry.rollback("local", "tone", actor="me").semver == "1.0.0"
    with pytest.raises(Conflict, match="no earlier"):
        yard.desk.registry.rollback("local", "tone", actor="me")


def test_an_answer_under_an_idempotency_key_stays_what_it_was(yard: Yard) -> None:
    once = Once("k", sha256("push"))
    manifest = yard.upload(b"one")
    facts = {"kind": "lora", "base": "tiny", "base_digest": "sha256:" + "b" * 64, "rank": 8, "bytes": 8}
    first = yard.desk.registry.push("local", "tone", manifest, account={}, actor="me", once=once, **facts)  # type: ignore[arg-type]
    yard.delete("tone:1.0.0")
    again = yard.desk.registry.push("local", "tone", manifest, account={}, actor="me", once=once, **facts)  # type: ignore[arg-type]
    assert again == first


def test_what_was_said_of_a_deleted_adapter_is_not_said_of_the_next_one_of_its_name(yard: Yard) -> None:
    yard.push("tone", b"one")
    Tags(yard.desk.database).set("local", "tone", "approved", "yes", actor="me")
    Descriptions(yard.desk.database).set("local", "tone", display_name="Tone", actor="me")
    yard.retention.set("local", "tone", Rules(keep_last=1), actor="me")
    yard.desk.demand("production", adapter="tone")
    yard.deletions.delete_adapter("local", "tone", actor="me", reason="over")
    assert yard.desk.registry.history("local", "tone")[-2].kind == "policy.removed"
    with pytest.raises(NotFound):
        yard.desk.demand("production", adapter="tone")
    yard.push("tone", b"two")
    yard.desk.promote("tone")
    searches = Searches(yard.desk.database)
    assert searches.find("local", "has tag.approved").items == searches.find("local", "has display_name").items == ()
    assert "tone" not in dict(yard.retention.list("local").items)
