"""The registry against a model: any order of pushes, pointers, stages, approvals, policies and deprecations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from graftwork.access.clock import timestamp
from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, Forbidden, NotFound, PreconditionFailed
from graftwork.registry import SnapshotReader
from graftwork.registry.past import view_at
from graftwork.registry.pointers import ABSENT, PROMOTED, ROLLED_BACK
from graftwork.registry.reading import view_of
from graftwork.registry.reference import Newest, Reference
from graftwork.registry.rules.policy import OPEN, ApprovalRule, Gate, Policy
from graftwork.registry.rules.stages import ALLOWED, Stage
from graftwork.registry.snapshot import read_snapshot
from support.scale import times

if TYPE_CHECKING:
    from support.desk import Desk

NAMES = st.sampled_from(["tone", "voice"])
ALIASES = st.sampled_from(["champion", "challenger"])
PICKS = st.integers(0, 20)


ACTORS = ("me", "ann", "bob")  # "me" pushes everything
NEEDS_TWO = ApprovalRule(needed=2, author_may_approve=False)
POLICIES = [
    None,
    Policy(require={"production": ("approval",)}),
    Policy(NEEDS_TWO, require={"staging": ("approval",), "production": ("staging",), "serving": ("approval",)}),
]


class Model:
    """What one adapter should be: sequence numbers only."""

    def __init__(self) -> None:
        self.count = 0
        self.trail: list[int] = []
        self.aliases: dict[str, int] = {}
        self.stages: dict[int, str] = {}
        self.verdicts: dict[int, dict[str, str]] = {}
        self.deprecated: set[int] = set()
        self.policy: Policy | None = None

    def pointers(self) -> dict[str, int]:
        held = dict(self.aliases)
        if self.trail:
            held["production"] = self.trail[-1]
        if len(self.trail) > 1:
            held["previous"] = self.trail[-2]
        return held

    def stage(self, sequence: int) -> str:
        return self.stages.get(sequence, "development")

    def enter_production(self, sequence: int) -> None:
        for held in [one for one, stage in self.stages.items() if stage == "production"]:
            self.stages[held] = "archived"
        self.stages[sequence] = "production"

    def approval(self, sequence: int, policy: Policy) -> str:
        given = self.verdicts.get(sequence, {})
        if "rejected" in given.values():
            return "rejected"
        mine = policy.approval.author_may_approve
        return "approved" if len([a for a in given if mine or a != "me"]) >= policy.approval.needed else "pending"

    def may_pass(self, gate: Gate, sequence: int, policy: Policy, *, returning: bool = False) -> bool:
        demands = policy.require.get(gate, ())
        staged = returning or self.stage(sequence) in ("staging", "production")
        approved = self.approval(sequence, policy) == "approved"
        return ("approval" not in demands or approved) and ("staging" not in demands or staged)


class RegistryMachine(RuleBasedStateMachine):
    """Each rule does the same to the registry and to the model; the invariants compare them."""

    make: Callable[[], Desk]

    def __init__(self) -> None:
        super().__init__()
        self.desk = type(self).make()
        self.reader = SnapshotReader(self.desk.database)
        self.models = {"tone": Model(), "voice": Model()}
        self.content = 0
        self.policy: Policy | None = None
        self.seen: list[tuple[str, str, dict[str, int]]] = []  # time, adapter, its aliases
        for name in ("tone", "voice", "tone"):
            self.push(name)

    def _policy(self, name: str) -> Policy:
        return self.models[name].policy or self.policy or OPEN

    def _pick(self, name: str, pick: int) -> int:
        return pick % self.models[name].count + 1

    @rule(name=NAMES)
    def push(self, name: str) -> None:
        self.content += 1
        model = self.models[name]
        model.count += 1
        assert self.desk.push(self.content, name).sequence == model.count

    @rule(name=NAMES, pick=PICKS)
    def promote(self, name: str, pick: int) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        if model.trail[-1:] == [sequence] or model.may_pass("production", sequence, self._policy(name)):
            self.desk.promote(f"adapters:/{name}/{sequence}")
            self._promoted(model, sequence)
            return
        with pytest.raises(Forbidden):
            self.desk.promote(f"adapters:/{name}/{sequence}")

    def _promoted(self, model: Model, sequence: int) -> None:
        if model.trail[-1:] != [sequence]:
            model.trail.append(sequence)
            model.enter_production(sequence)

    @rule(name=NAMES)
    def rollback(self, name: str) -> None:
        model = self.models[name]
        if len(model.trail) < 2:
            with pytest.raises(Conflict):
                self.desk.registry.rollback("local", name, actor="me")
            return
        if not model.may_pass("production", model.trail[-2], self._policy(name), returning=True):
            with pytest.raises(Forbidden):
                self.desk.registry.rollback("local", name, actor="me")
            return
        model.trail.pop()
        assert self.desk.registry.rollback("local", name, actor="me").sequence == model.trail[-1]
        model.enter_production(model.trail[-1])

    @rule(name=NAMES, pick=PICKS, stage=st.sampled_from(list(ALLOWED)))
    def set_stage(self, name: str, pick: int, stage: Stage) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        before, entering = model.stage(sequence), self._policy(name)

        def change() -> None:
            self.desk.lifecycle.set_stage("local", f"adapters:/{name}/{sequence}", stage, actor="me")

        if before != stage and (before == "production" or (before, stage) == ("archived", "development")):
            with pytest.raises(Conflict):
                change()
        elif before != stage and not model.may_pass(cast(Gate, stage), sequence, entering):
            with pytest.raises(Forbidden):
                change()
        else:
            change()
            if stage == "production":
                self._promoted(model, sequence)
            model.stages[sequence] = stage

    @rule(name=NAMES, pick=PICKS, actor=st.sampled_from(ACTORS), approve=st.integers(0, 3))
    def decide(self, name: str, pick: int, actor: str, approve: int) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        reference, verdict = f"adapters:/{name}/{sequence}", self.desk.approve if approve else self.desk.reject
        if approve and actor == "me" and not self._policy(name).approval.author_may_approve:
            with pytest.raises(Forbidden):
                verdict(reference, actor)
            return
        verdict(reference, actor)
        model.verdicts.setdefault(sequence, {})[actor] = "approved" if approve else "rejected"

    @rule(name=st.none() | NAMES, policy=st.sampled_from(POLICIES))
    def set_policy(self, name: str | None, policy: Policy | None) -> None:
        self.desk.lifecycle.set_policy("local", policy, adapter=name, actor="me")
        if name is None:
            self.policy = policy
        else:
            self.models[name].policy = policy

    @rule(name=NAMES, pick=PICKS, message=st.sampled_from([None, "Use another.", "Do not."]))
    def deprecate(self, name: str, pick: int, message: str | None) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        if message is None:
            self.desk.lifecycle.undeprecate("local", f"adapters:/{name}/{sequence}", actor="me")
            model.deprecated.discard(sequence)
            return
        self.desk.lifecycle.deprecate("local", f"adapters:/{name}/{sequence}", message, actor="me")
        model.deprecated.add(sequence)

    @rule(name=NAMES, alias=ALIASES, pick=PICKS, right=st.booleans())
    def set_alias(self, name: str, alias: str, pick: int, right: bool) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        expected = self._digest(name, model.aliases[alias]) if alias in model.aliases else ABSENT
        target = f"adapters:/{name}/{sequence}"
        if right:
            self.desk.registry.set_alias("local", name, alias, target, expected=expected, actor="me")
            model.aliases[alias] = sequence
            return
        with pytest.raises(PreconditionFailed):
            self.desk.registry.set_alias("local", name, alias, target, expected="sha256:" + "0" * 64, actor="me")

    @rule(name=NAMES, alias=ALIASES)
    def remove_alias(self, name: str, alias: str) -> None:
        model = self.models[name]
        if alias in model.aliases:
            self.desk.registry.remove_alias("local", name, alias, actor="me")
            del model.aliases[alias]
            return
        with pytest.raises(NotFound):
            self.desk.registry.remove_alias("local", name, alias, actor="me")

    def _digest(self, name: str, sequence: int) -> str:
        return self.desk.registry.show("local", f"adapters:/{name}/{sequence}").digest

    @invariant()
    def the_registry_is_as_the_model(self) -> None:
        for name, model in self.models.items():
            versions = self.desk.registry.list_versions("local", name)
            assert [version.sequence for version in versions] == list(range(model.count, 0, -1))
            held = {alias: version.sequence for version in versions for alias in version.aliases}
            assert held == model.pointers()
            policy = self._policy(name)
            for version in versions:
                one = version.sequence
                assert version.stage == model.stage(one)
                assert version.approval == model.approval(one, policy)
                assert bool(version.forbidden) != model.may_pass("serving", one, policy)
                assert (version.deprecated is not None) == (one in model.deprecated)
            assert [version.stage for version in versions].count("production") == bool(model.trail)
            self.seen.append((timestamp(self.desk.clock()), name, held))
            bare = self.desk.registry.show("local", name).sequence
            assert bare == (model.trail[-1] if model.trail else model.count)

    @invariant()
    def the_snapshot_is_as_if_read_whole(self) -> None:
        snapshot = self.reader.current()
        assert snapshot == read_snapshot(self.desk.database)
        for name in snapshot.names("local"):
            assert list(snapshot.adapters["local", name].versions[::-1]) == self.desk.registry.list_versions(
                "local", name
            )
            bare = snapshot.resolve("local", Reference(None, name, Newest()))
            assert bare == self.desk.registry.show("local", name)

    def nothing_entered_production_that_the_policy_forbade(self) -> None:
        for name in self.models:
            for event in self.desk.registry.history("local", name):
                if event.kind not in (PROMOTED, ROLLED_BACK):
                    continue
                with self.desk.database.reading() as tx:
                    then = view_at(tx, view_of(tx, "local", name), event.at)
                assert then.production is not None
                demands = then.standing.policy.require.get("production", ())
                assert "approval" not in demands or then.production.approval == "approved"
                changed = {one["sequence"]: one["from"] for one in event.payload["stages"]}
                returned = event.kind == ROLLED_BACK
                assert "staging" not in demands or returned or changed[then.production.sequence] == "staging"

    def the_log_tells_where_aliases_were(self) -> None:
        for at, name, held in self.seen[::7]:
            then = self.desk.registry.aliases("local", name, at=at)
            assert {pointer.alias: pointer.sequence for pointer in then} == held

    def teardown(self) -> None:
        self.nothing_entered_production_that_the_policy_forbade()
        self.the_log_tells_where_aliases_were()
        with self.desk.database.reading() as tx:
            verify_chain(tx)
        self.desk.database.close()


def test_the_registry_behaves_as_the_model(make_desk: Callable[[], Desk]) -> None:
    machine = type("Machine", (RegistryMachine,), {"make": staticmethod(make_desk)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times(6, 150),
            stateful_step_count=times(20, 40),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
