"""Stages, approvals by several people, policies and deprecation, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.errors import Conflict, Forbidden, InvalidRequest, NotFound, PreconditionFailed
from graftwork.registry import snapshot as snapshot_module
from graftwork.registry.pointers import PRESENT
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.rules.policy import OPEN, ApprovalRule, Policy
from graftwork.registry.snapshot import SnapshotReader, read_snapshot
from graftwork.registry.versions import Version

if TYPE_CHECKING:
    from support.desk import Desk


@pytest.fixture
def two(desk: Desk) -> Desk:
    for content in (1, 2):
        desk.push(content)
    return desk


def kinds(desk: Desk) -> list[str]:
    return [event.kind for event in desk.registry.history("local", "tone")]


def test_a_version_goes_through_the_stages_and_each_step_is_an_event(two: Desk) -> None:
    staged = two.lifecycle.set_stage("local", "tone:1.0.0", "staging", actor="ann", reason="try it")
    again = two.lifecycle.set_stage("local", "tone:1.0.0", "staging", actor="ann")
    assert (staged.stage, again) == ("staging", staged)
    event = two.registry.history("local", "tone")[-1]
    assert (event.kind, event.actor, event.payload["reason"]) == ("stage.set", "ann", "try it")
    assert [(change["from"], change["to"]) for change in event.payload["stages"]] == [("development", "staging")]
    assert kinds(two).count("stage.set") == 1


def test_into_production_a_version_is_promoted_and_only_another_takes_it_out(two: Desk) -> None:
    two.promote("tone:1.0.0")
    entered = two.lifecycle.set_stage("local", "tone:1.0.1", "production", actor="me")
    assert (entered.stage, entered.aliases) == ("production", ("production",))
    assert two.registry.show("local", "tone@previous").stage == "archived"
    for stage in ("development", "staging", "archived"):
        with pytest.raises(Conflict, match="roll back"):
            two.lifecycle.set_stage("local", "tone", stage, actor="me")
    assert kinds(two)[-1] == "version.promoted"
    assert two.registry.rollback("local", "tone", actor="me").semver == "1.0.0"


def test_a_stage_is_set_only_where_the_version_is_as_expected(two: Desk) -> None:
    seen = two.registry.show("local", "tone:1.0.0").etag
    two.lifecycle.set_stage("local", "tone:1.0.0", "staging", expected="development", if_match=seen, actor="me")
    for wrong in ({"expected": "development"}, {"if_match": seen}):
        with pytest.raises(PreconditionFailed):
            two.lifecycle.set_stage("local", "tone:1.0.0", "archived", actor="me", **wrong)  # type: ignore[arg-type]
    two.lifecycle.set_stage("local", "tone:1.0.0", "archived", expected="staging", if_match=PRESENT, actor="me")
    assert two.stages()["1.0.0"] == "archived"


def test_two_others_than_the_author_must_approve_before_production(two: Desk) -> None:
    two.demand("production", needed=2, author_may_approve=False)
    with pytest.raises(Forbidden, match="nobody approve what they pushed"):
        two.approve("tone:1.0.0", "me")
    two.approve("tone:1.0.0", "ann")
    with pytest.raises(Forbidden, match=r"tone:1\.0\.0 out of production: its approval is pending") as refused:
        two.promote("tone:1.0.0")
    assert refused.value.problems == ("its approval is pending",)
    assert two.approve("tone:1.0.0", "bob").approval == "approved"
    assert two.promote("tone:1.0.0").stage == "production"
    assert two.registry.show("local", "tone:1.0.1").approval == "pending"


def test_only_those_whom_the_policy_names_decide(two: Desk) -> None:
    two.demand("production", by=frozenset({"ann"}))
    for verdict in (two.approve, two.reject):
        with pytest.raises(Forbidden, match="others than bob"):
            verdict("tone", "bob")
    assert two.approve("tone", "ann").approval == "approved"
    two.demand("production", by=frozenset({"bob"}))
    assert two.registry.show("local", "tone").approval == "pending", "whom the policy does not name does not count"


def test_a_rejection_vetoes_until_it_is_taken_back(two: Desk) -> None:
    two.demand("production")
    two.approve("tone:1.0.0", "ann")
    assert two.reject("tone:1.0.0", "bob").approval == "rejected"
    with pytest.raises(Forbidden, match="rejected"):
        two.promote("tone:1.0.0")
    assert two.approve("tone:1.0.0", "bob").approval == "approved"
    two.promote("tone:1.0.0")


def test_verdicts_are_kept_with_who_when_and_why_and_cannot_be_changed(two: Desk) -> None:
    two.lifecycle.decide("local", "tone", "rejected", actor="ann", reason="too rude")
    for _ in range(2):
        two.lifecycle.decide("local", "tone", "approved", actor="ann", reason="after all")
    version, opinions = two.lifecycle.opinions("local", "tone")
    assert (version.approval, [(one.verdict, one.reason, one.actor) for one in opinions]) == (
        "approved",
        [("rejected", "too rude", "ann"), ("approved", "after all", "ann")],
    )
    events = [event for event in two.registry.history("local", "tone") if event.actor == "ann"]
    assert [(event.kind, event.at, event.payload["reason"]) for event in events] == [
        (f"version.{one.verdict}", one.at, one.reason) for one in opinions
    ]
    for change in ("UPDATE approvals SET verdict = 'approved'", "DELETE FROM approvals"):
        with pytest.raises(IntegrityError), two.database.transaction() as tx:
            tx.execute(text(change))


def test_a_rollback_needs_what_a_promotion_needs(two: Desk) -> None:
    two.promote("tone:1.0.0")
    two.promote("tone:1.0.1")
    two.demand("production")
    with pytest.raises(Forbidden, match=r"tone:1\.0\.0"):
        two.registry.rollback("local", "tone", actor="me")
    two.approve("tone:1.0.0")
    assert two.registry.rollback("local", "tone", actor="me").semver == "1.0.0"


def test_a_policy_may_demand_staging_first_except_of_what_a_rollback_brings_back(two: Desk) -> None:
    policy = Policy(require={"staging": ("approval",), "production": ("staging",)})
    two.lifecycle.set_policy("local", policy, actor="me")
    with pytest.raises(Forbidden, match="stage is development"):
        two.promote("tone:1.0.0")
    with pytest.raises(Forbidden, match="out of staging: its approval is pending"):
        two.lifecycle.set_stage("local", "tone:1.0.0", "staging", actor="me")
    for version in ("tone:1.0.0", "tone:1.0.1"):
        two.approve(version)
        two.lifecycle.set_stage("local", version, "staging", actor="me")
        two.promote(version)
    with pytest.raises(Forbidden, match="stage is archived"):
        two.promote("tone:1.0.0")
    assert two.registry.rollback("local", "tone", actor="me").semver == "1.0.0"


def test_a_policy_that_is_not_there_cannot_be_taken_away(two: Desk) -> None:
    two.demand("serving", adapter="tone")
    two.lifecycle.set_policy("local", None, adapter="tone", actor="me")
    for adapter in ("tone", None):
        with pytest.raises(NotFound, match="No policy was set for"):
            two.lifecycle.set_policy("local", None, adapter=adapter, actor="me")


def test_an_adapters_own_policy_holds_instead_of_its_tenants(two: Desk) -> None:
    two.push(3, "voice")
    reader = SnapshotReader(two.database)
    assert two.lifecycle.policy("local", "tone") == (OPEN, None)
    two.demand("serving")
    assert [bool(version.forbidden) for _, version in newest(reader)] == [True, True]
    two.lifecycle.set_policy("local", OPEN, adapter="voice", actor="me")
    assert [(name, bool(version.forbidden)) for name, version in newest(reader)] == [("tone", True), ("voice", False)]
    assert two.lifecycle.policy("local", "voice") == (OPEN, "voice")
    two.lifecycle.set_policy("local", None, adapter="voice", actor="me")
    assert [bool(version.forbidden) for _, version in newest(reader)] == [True, True]
    two.lifecycle.set_policy("local", None, actor="me")
    assert [bool(version.forbidden) for _, version in newest(reader)] == [False, False]
    with pytest.raises(NotFound, match="nope"):
        two.lifecycle.set_policy("local", OPEN, adapter="nope", actor="me")


def newest(reader: SnapshotReader) -> list[tuple[str, Version]]:
    return [(name, view.newest) for (_, name), view in reader.current().adapters.items()]


def test_who_deletes_and_pushes_again_meets_the_policy_and_finds_no_approval(two: Desk) -> None:
    two.demand("production")
    two.approve("tone:1.0.0")
    assert two.registry.show("local", "tone:1.0.0").approval == "approved"
    Deletions(two.database, two.clock).delete_adapter("local", "tone", actor="me")
    again = two.push(1)
    assert (again.semver, two.registry.show("local", "tone").approval) == ("1.0.2", "pending")
    with pytest.raises(Forbidden, match=r"keeps tone:1\.0\.2 out of production: its approval is pending"):
        two.promote("tone")


def test_a_signature_of_no_key_is_demanded_of_everything_in_vain(two: Desk) -> None:
    two.lifecycle.set_policy("local", Policy(require={"production": ("signature",)}), actor="me")
    with pytest.raises(Forbidden, match="does not say by which keys"):
        two.promote("tone:1.0.0")


def test_a_policy_is_another_tenants_in_nothing(two: Desk) -> None:
    two.try_push(3, "voice", tenant="acme")
    two.demand("production", "serving")
    assert two.lifecycle.policy("acme") == (OPEN, None)
    assert two.promote("voice", tenant="acme").forbidden == ()


def test_each_change_of_a_policy_is_an_event_with_before_and_after(two: Desk) -> None:
    strict = Policy(ApprovalRule(needed=2))
    for policy in (strict, strict, None):
        two.lifecycle.set_policy("local", policy, adapter="tone", actor="ann", reason="audit")
    told = [event for event in two.registry.history("local", "tone") if event.kind.startswith("policy.")]
    assert [(event.kind, event.actor, event.payload["reason"]) for event in told] == [
        ("policy.set", "ann", "audit"),
        ("policy.removed", "ann", "audit"),
    ]
    assert [(event.payload["before"], event.payload["after"]) for event in told] == [
        (None, strict.to_json()),
        (strict.to_json(), None),
    ]


def test_a_deprecated_version_says_so_until_that_is_taken_back(two: Desk) -> None:
    deprecated = two.lifecycle.deprecate("local", "tone:1.0.0", "Use 1.0.1.", actor="ann").deprecated
    assert deprecated is not None and (deprecated.message, deprecated.until) == ("Use 1.0.1.", None)
    changed = two.lifecycle.deprecate("local", "tone:1.0.0", "Use 2.", until="2027-01-01T00:00:00.000000Z", actor="me")
    assert changed.deprecated is not None and changed.deprecated.since == deprecated.since
    assert [version.deprecated is None for version in two.registry.list_versions("local", "tone")] == [True, False]
    for _ in range(2):
        assert two.lifecycle.undeprecate("local", "tone:1.0.0", actor="me").deprecated is None
    assert kinds(two)[-3:] == ["version.deprecated", "version.deprecated", "version.undeprecated"]
    with pytest.raises(InvalidRequest, match="message"):
        two.lifecycle.deprecate("local", "tone", " ", actor="me")


def test_a_tenants_policy_is_applied_to_what_the_snapshot_knows(two: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    two.push(3, "own")
    two.push(4, tenant="acme")
    two.approve("tone:1.0.0")
    two.demand("serving", adapter="own", needed=2)
    known = read_snapshot(two.database)
    monkeypatch.setattr(snapshot_module, "all_versions", lambda tx: pytest.fail("every version is read again"))
    demand = Policy(ApprovalRule(), require={"serving": ("approval",)})
    for policy in (demand, replace(demand, approval=ApprovalRule(by=frozenset({"ann"}))), None):
        two.lifecycle.set_policy("local", policy, actor="me")
        before, known = known, read_snapshot(two.database, known)
        for key in before.adapters:
            assert (known.adapters[key] is before.adapters[key]) == (key != ("local", "tone"))
        for version in known.adapters["local", "tone"].versions:
            shown = two.registry.show("local", version.label)
            assert (version.approval, version.forbidden) == (shown.approval, shown.forbidden)
