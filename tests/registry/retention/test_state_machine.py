"""Deletion and collection against a model: any order of pushes, pointers, holds, rules, deletions and collections."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, Held
from graftwork.registry import SnapshotReader, Version
from graftwork.registry.retention.rules import Rules
from graftwork.registry.snapshot import read_snapshot
from support.pushes import digest_of
from support.scale import times

if TYPE_CHECKING:
    from support.yard import Yard

NAMES = st.sampled_from(["tone", "voice"])
ALIASES = st.sampled_from(["champion", "challenger"])
PICKS = st.integers(0, 20)


class Model:
    """What one adapter should be: sequence numbers only."""

    def __init__(self) -> None:
        self.count = 0  # ever pushed
        self.live: dict[int, int] = {}  # to content
        self.trail: list[int] = []
        self.promoted: set[int] = set()
        self.aliases: dict[str, int] = {}
        self.held: set[int | None] = set()  # None: all of it
        self.rules = Rules()

    def pointers(self) -> dict[str, int]:
        held = dict(self.aliases)
        if self.trail:
            held["production"] = self.trail[-1]
        if "previous" in self.aliases:
            held["previous"] = self.aliases["previous"]
        return held

    def holders(self, sequence: int) -> set[str]:
        found = {"alias" if alias != "production" else alias for alias, at in self.pointers().items() if at == sequence}
        if sequence in self.trail[-1 - self.rules.keep_rollbacks : -1]:
            found.add("rollback")
        return found | ({"hold"} if self.held & {None, sequence} else set())

    def drop(self, sequence: int) -> None:
        del self.live[sequence]
        self.held.discard(sequence)
        kept = [one for one in self.trail if one != sequence]
        self.trail = [one for one, _ in groupby(kept)]


class RetentionMachine(RuleBasedStateMachine):
    """Each rule does the same to the registry and to the model; the invariants compare them."""

    make: Callable[[], Yard]

    def __init__(self) -> None:
        super().__init__()
        self.yard = type(self).make()
        self.reader = SnapshotReader(self.yard.desk.database)
        self.models = {"tone": Model(), "voice": Model()}

    def _pick(self, name: str, pick: int) -> int:
        live = sorted(self.models[name].live)
        return live[pick % len(live)]

    def _both_live(self) -> bool:
        return all(model.live for model in self.models.values())

    @rule(name=NAMES, content=st.integers(0, 4))
    def push(self, name: str, content: int) -> None:
        model = self.models[name]
        version = self.yard.push(name, bytes([content]) * 10)
        if content not in model.live.values():
            model.count += 1
            model.live[model.count] = content
        assert model.live[version.sequence] == content

    @precondition(_both_live)
    @rule(name=NAMES, pick=PICKS)
    def promote(self, name: str, pick: int) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        self.yard.desk.promote(f"adapters:/{name}/{sequence}")
        if model.trail[-1:] != [sequence]:
            if model.trail:
                model.aliases["previous"] = model.trail[-1]
            model.trail.append(sequence)
            model.promoted.add(sequence)

    @precondition(_both_live)
    @rule(name=NAMES)
    def rollback(self, name: str) -> None:
        model, registry = self.models[name], self.yard.desk.registry
        if len(model.trail) < 2:
            with pytest.raises(Conflict):
                registry.rollback("local", name, actor="me")
            return
        model.trail.pop()
        assert registry.rollback("local", name, actor="me").sequence == model.trail[-1]
        model.aliases.pop("previous", None)
        if len(model.trail) > 1:
            model.aliases["previous"] = model.trail[-2]

    @precondition(_both_live)
    @rule(name=NAMES, alias=ALIASES, pick=PICKS)
    def set_alias(self, name: str, alias: str, pick: int) -> None:
        sequence = self._pick(name, pick)
        self.yard.desk.registry.set_alias("local", name, alias, f"adapters:/{name}/{sequence}", actor="me")
        self.models[name].aliases[alias] = sequence

    @precondition(lambda self: any({"champion", "challenger"} & set(one.aliases) for one in self.models.values()))
    @rule(alias=ALIASES)
    def remove_alias(self, alias: str) -> None:
        for name, model in self.models.items():
            if model.aliases.pop(alias, None) is not None:
                self.yard.desk.registry.remove_alias("local", name, alias, actor="me")

    @precondition(_both_live)
    @rule(name=NAMES, pick=st.none() | PICKS)
    def hold_or_release(self, name: str, pick: int | None) -> None:
        model = self.models[name]
        sequence = None if pick is None else self._pick(name, pick)
        reference = name if sequence is None else f"adapters:/{name}/{sequence}"
        if sequence in model.held:
            self.yard.holds.release("local", reference, reason="settled", actor="me")
            model.held.remove(sequence)
        else:
            self.yard.holds.set("local", reference, reason="case 7", actor="me")
            model.held.add(sequence)

    @precondition(_both_live)
    @rule(name=NAMES, pick=PICKS)
    def delete(self, name: str, pick: int) -> None:
        model, sequence = self.models[name], self._pick(name, pick)
        expected = model.holders(sequence)
        try:
            self.yard.delete(f"adapters:/{name}/{sequence}")
        except Held as error:
            assert {holder["kind"] for holder in error.holders} == expected
            return
        assert not expected
        model.drop(sequence)

    @precondition(_both_live)
    @rule(name=NAMES, in_production=st.booleans())
    def delete_adapter(self, name: str, in_production: bool) -> None:
        model = self.models[name]
        if model.held or (model.trail and not in_production):
            with pytest.raises(Held):
                self.yard.deletions.delete_adapter("local", name, actor="me", in_production=in_production)
            return
        self.yard.deletions.delete_adapter("local", name, actor="me", in_production=in_production)
        model.aliases.clear()
        for sequence in list(model.live):
            model.drop(sequence)

    @precondition(_both_live)
    @rule(
        name=NAMES,
        rules=st.builds(
            Rules, keep_last=st.none() | st.integers(1, 2), keep_production=st.booleans(),
            keep_rollbacks=st.integers(0, 2),
        ),
    )  # fmt: skip
    def set_rules(self, name: str, rules: Rules) -> None:
        self.yard.retention.set("local", name, rules, actor="me")
        self.models[name].rules = rules

    @rule()
    def collect(self) -> None:
        looked = self.yard.look()
        assert self.yard.collect() == looked
        for name, model in self.models.items():
            went = set(model.live) - {version.sequence for version in self._versions(name)}
            rules, newest_first = model.rules, sorted(model.live, reverse=True)
            assert went == {
                sequence
                for place, sequence in enumerate(newest_first)
                if rules.keep_last is not None and place >= rules.keep_last
                if not model.holders(sequence) and not (rules.keep_production and sequence in model.promoted)
            }
            for sequence in went:
                model.drop(sequence)
        kept = {content for model in self.models.values() for content in model.live.values()}
        for content in range(5):  # and every byte of the others is gone
            there = self.yard.store.has("local", digest_of(bytes([content]) * 10))
            assert (there is not None) == (content in kept)
        assert self.yard.look().items == ()

    def _versions(self, name: str) -> list[Version]:
        view = self.reader.current().adapters.get(("local", name))
        return list(view.versions) if view is not None else []

    @invariant()
    def the_registry_is_as_the_model(self) -> None:
        snapshot = self.reader.current()
        assert snapshot == read_snapshot(self.yard.desk.database)
        for name, model in self.models.items():
            view = snapshot.adapters.get(("local", name))
            assert [version.sequence for version in view.versions] == sorted(model.live) if view else not model.live
            if view is not None:
                assert {alias: version.sequence for alias, version in view.aliases.items()} == model.pointers()

    @invariant()
    def no_version_has_lost_a_byte(self) -> None:
        contents = {content for model in self.models.values() for content in model.live.values()}
        for data in [bytes([content]) * 10 for content in contents]:
            assert b"".join(self.yard.store.open("local", digest_of(data))) == data

    def teardown(self) -> None:
        with self.yard.desk.database.reading() as tx:
            verify_chain(tx)
        self.yard.desk.database.close()


def test_what_stays_and_goes_is_as_the_model(make_yard: Callable[[str], Yard]) -> None:
    machine = type("Machine", (RetentionMachine,), {"make": staticmethod(lambda: make_yard("memory://"))})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times(12, 150),
            stateful_step_count=times(25, 50),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
