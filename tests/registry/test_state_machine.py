"""Pointers against a model: any order of pushes, aliases, promotions and rollbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, NotFound, PreconditionFailed
from graftwork.registry import SnapshotReader
from graftwork.registry.pointers import ABSENT
from graftwork.registry.reference import Newest, Reference
from graftwork.registry.snapshot import read_snapshot
from support.scale import times

if TYPE_CHECKING:
    from support.desk import Desk

NAMES = st.sampled_from(["tone", "voice"])
ALIASES = st.sampled_from(["champion", "challenger"])
PICKS = st.integers(0, 20)


class Model:
    """What one adapter should be: sequence numbers only."""

    def __init__(self) -> None:
        self.count = 0
        self.trail: list[int] = []
        self.aliases: dict[str, int] = {}
        self.promoted: set[int] = set()

    def pointers(self) -> dict[str, int]:
        held = dict(self.aliases)
        if self.trail:
            held["production"] = self.trail[-1]
        if len(self.trail) > 1:
            held["previous"] = self.trail[-2]
        return held

    def stage(self, sequence: int) -> str:
        if self.trail and sequence == self.trail[-1]:
            return "production"
        return "archived" if sequence in self.promoted else "development"


class PointerMachine(RuleBasedStateMachine):
    """Each rule does the same to the registry and to the model; the invariants compare them."""

    make: Callable[[], Desk]

    def __init__(self) -> None:
        super().__init__()
        self.desk = type(self).make()
        self.reader = SnapshotReader(self.desk.database)
        self.models = {"tone": Model(), "voice": Model()}
        self.content = 0

    def _pick(self, name: str, pick: int) -> int:
        return pick % self.models[name].count + 1

    @rule(name=NAMES)
    def push(self, name: str) -> None:
        self.content += 1
        model = self.models[name]
        model.count += 1
        assert self.desk.push(self.content, name).sequence == model.count

    @precondition(lambda self: all(model.count for model in self.models.values()))
    @rule(name=NAMES, pick=PICKS)
    def promote(self, name: str, pick: int) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        self.desk.promote(f"adapters:/{name}/{sequence}")
        if model.trail[-1:] != [sequence]:
            model.trail.append(sequence)
            model.promoted.add(sequence)

    @precondition(lambda self: all(model.count for model in self.models.values()))
    @rule(name=NAMES)
    def rollback(self, name: str) -> None:
        model = self.models[name]
        if len(model.trail) < 2:
            with pytest.raises(Conflict):
                self.desk.registry.rollback("local", name, actor="me")
            return
        model.trail.pop()
        assert self.desk.registry.rollback("local", name, actor="me").sequence == model.trail[-1]

    @precondition(lambda self: all(model.count for model in self.models.values()))
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

    @precondition(lambda self: all(model.count for model in self.models.values()))
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
            if not model.count:
                continue
            versions = self.desk.registry.list_versions("local", name)
            assert [version.sequence for version in versions] == list(range(model.count, 0, -1))
            held = {alias: version.sequence for version in versions for alias in version.aliases}
            assert held == model.pointers()
            assert [version.stage for version in versions] == [model.stage(version.sequence) for version in versions]
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

    def teardown(self) -> None:
        with self.desk.database.reading() as tx:
            verify_chain(tx)
        self.desk.database.close()


def test_pointers_behave_as_the_model(make_desk: Callable[[], Desk]) -> None:
    machine = type("Machine", (PointerMachine,), {"make": staticmethod(make_desk)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times(12, 150),
            stateful_step_count=times(20, 40),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
