"""The registry against a model: any order of all that changes versions, what points at them and what they keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import text

from graftwork.access.clock import timestamp
from graftwork.access.events import verify_chain
from graftwork.artifacts.signing.keys import read_private, read_public
from graftwork.artifacts.signing.signature import sign
from graftwork.errors import Conflict, Forbidden, GraftworkError, Held, NotFound, PreconditionFailed
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.documents.document import Content
from graftwork.registry.documents.documents import Documents
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.registry.pointers import ABSENT
from graftwork.registry.reference import Newest, Reference
from graftwork.registry.retention.rules import Rules
from graftwork.registry.retention.sweep import Bounds
from graftwork.registry.rules.policy import OPEN, ApprovalRule, Gate, Policy
from graftwork.registry.rules.stages import ALLOWED, Stage
from graftwork.registry.signatures import Signatures
from graftwork.registry.snapshot import SnapshotReader, read_snapshot
from graftwork.registry.versions import Version
from support.adapter_model import AUTHOR, AdapterModel
from support.evaluations import put, task
from support.keys import KEYS
from support.pushes import digest_of
from support.scale import times
from support.yard import AT_ONCE, Yard

if TYPE_CHECKING:
    from support.desk import Desk

NAMES = st.sampled_from(["tone", "voice"])
ALIASES = st.sampled_from(["champion", "challenger"])
PICKS = st.integers(0, 20)
#: Weights, documents and reports alike, so that blobs are shared in every way.
BYTES = st.integers(0, 4).map(lambda number: bytes([number]) * 10)
CONFIG = b"{}"  # of every adapter

MINE = KEYS["ed25519"]
SIGNED = frozenset({read_public(MINE.public).fingerprint})
NEEDS_TWO = ApprovalRule(needed=2, author_may_approve=False)
POLICIES = [
    None,
    Policy(require={"production": ("approval",)}),
    Policy(signature_keys=SIGNED, require={"production": ("signature",)}),
    Policy(NEEDS_TWO, require={"staging": ("approval",), "production": ("staging",), "serving": ("approval",)}),
]
RULES = st.builds(
    Rules,
    keep_last=st.none() | st.integers(1, 2),
    keep_production=st.booleans(),
    archived_days=st.none() | st.just(0),
    keep_rollbacks=st.integers(0, 2),
)

Why = type[GraftworkError] | None
both_live = precondition(lambda self: all(model.live for model in self.models.values()))


def first(reasons: Mapping[type[GraftworkError], bool]) -> Why:
    """The error whose condition holds."""
    return next((error for error, holds in reasons.items() if holds), None)


def refused(why: Why) -> AbstractContextManager[Any]:
    return pytest.raises(why) if why else nullcontext()


def state_of(version: Version) -> dict[str, Any]:
    """As `AdapterModel.state` has it."""
    return {
        "stage": version.stage,
        "aliases": sorted(version.aliases),
        "approval": version.approval,
        "signed": bool(version.signed_by),
        "deprecated": version.deprecated is not None,
        "forbidden": bool(version.forbidden),
    }


class RegistryMachine(RuleBasedStateMachine):
    """Each rule does the same to the registry and to the model; the invariants compare them."""

    make: Callable[[], Yard]

    def __init__(self) -> None:
        super().__init__()
        self.yard = type(self).make()
        self.desk, self.store, clock = self.yard.desk, self.yard.store, self.yard.desk.clock
        # By the one clock of all that is tested here, every blob is older than a moment and younger than a day.
        clock.now, self.yard.clock = datetime.now(UTC) + timedelta(hours=1), clock
        self.documents = Documents(self.desk.database, self.store, clock)
        self.evaluations = Evaluations(self.desk.database, self.store, clock)
        self.signatures = Signatures(self.desk.database, self.store, clock)
        self.reader = SnapshotReader(self.desk.database)
        self.models = {"tone": AdapterModel(), "voice": AdapterModel()}
        self.policy: Policy | None = None
        self.seen: list[tuple[str, str, dict[int, dict[str, Any]], dict[str, int]]] = []
        for name, weights in (("tone", b"a"), ("voice", b"a"), ("tone", b"b")):
            self.push(name, weights)

    def _policy(self, name: str) -> Policy:
        return self.models[name].policy or self.policy or OPEN

    def _pick(self, name: str, pick: int) -> tuple[AdapterModel, int, str]:
        live = sorted(self.models[name].live)
        sequence = live[pick % len(live)]
        return self.models[name], sequence, f"adapters:/{name}/{sequence}"

    # Versions and pointers

    @rule(name=NAMES, weights=BYTES)
    def push(self, name: str, weights: bytes) -> None:
        assert self.yard.push(name, weights).sequence == self.models[name].push(weights)

    @both_live
    @rule(name=NAMES, pick=PICKS)
    def promote(self, name: str, pick: int) -> None:
        model, sequence, reference = self._pick(name, pick)
        again = model.trail[-1:] == [sequence]
        why = first({Forbidden: not again and not model.may_pass("production", sequence, self._policy(name))})
        with refused(why):
            self.desk.promote(reference)
        if why is None:
            model.promote(sequence)

    @both_live
    @rule(name=NAMES)
    def rollback(self, name: str) -> None:
        model, policy = self.models[name], self._policy(name)
        nowhere = len(model.trail) < 2
        allowed = nowhere or model.may_pass("production", model.trail[-2], policy, returning=True)
        why = first({Conflict: nowhere, Forbidden: not allowed})
        with refused(why):
            found = self.desk.registry.rollback("local", name, actor=AUTHOR)
        if why is None:
            assert found.sequence == model.rollback()

    @both_live
    @rule(name=NAMES, alias=ALIASES, pick=PICKS, right=st.booleans())
    def set_alias(self, name: str, alias: str, pick: int, right: bool) -> None:
        model, sequence, reference = self._pick(name, pick)
        expected = "sha256:" + "0" * 64
        if right:
            at = model.aliases.get(alias)
            expected = self.desk.registry.show("local", f"adapters:/{name}/{at}").digest if at else ABSENT
        with refused(None if right else PreconditionFailed):
            self.desk.registry.set_alias("local", name, alias, reference, expected=expected, actor=AUTHOR)
        if right:
            model.aliases[alias] = sequence

    @both_live
    @rule(name=NAMES, alias=ALIASES)
    def remove_alias(self, name: str, alias: str) -> None:
        with refused(first({NotFound: alias not in self.models[name].aliases})):
            self.desk.registry.remove_alias("local", name, alias, actor=AUTHOR)
        self.models[name].aliases.pop(alias, None)

    # Stages, approvals, policies, deprecations

    @both_live
    @rule(name=NAMES, pick=PICKS, stage=st.sampled_from(list(ALLOWED)))
    def set_stage(self, name: str, pick: int, stage: Stage) -> None:
        model, sequence, reference = self._pick(name, pick)
        before, same = model.stages[sequence], model.stages[sequence] == stage
        never = before == "production" or (before, stage) == ("archived", "development")
        kept_out = not model.may_pass(cast(Gate, stage), sequence, self._policy(name))
        why = first({Conflict: not same and never, Forbidden: not same and kept_out})
        with refused(why):
            self.desk.lifecycle.set_stage("local", reference, stage, actor=AUTHOR)
        if why is None and stage == "production":
            model.promote(sequence)
        elif why is None:
            model.stages[sequence] = stage

    @both_live
    @rule(name=NAMES, pick=PICKS, actor=st.sampled_from([AUTHOR, "ann", "bob"]), approve=st.integers(0, 3))
    def decide(self, name: str, pick: int, actor: str, approve: int) -> None:
        model, sequence, reference = self._pick(name, pick)
        own = actor == AUTHOR and not self._policy(name).approval.author_may_approve
        why = first({Forbidden: bool(approve) and own})
        with refused(why):
            (self.desk.approve if approve else self.desk.reject)(reference, actor)
        if why is None:
            model.verdicts.setdefault(sequence, {})[actor] = "approved" if approve else "rejected"

    @both_live
    @rule(name=st.none() | NAMES, policy=st.sampled_from(POLICIES))
    def set_policy(self, name: str | None, policy: Policy | None) -> None:
        known = self.policy if name is None else self.models[name].policy
        with refused(first({NotFound: policy is None and known is None})):
            self.desk.lifecycle.set_policy("local", policy, adapter=name, actor=AUTHOR)
        if name is None:
            self.policy = policy
        else:
            self.models[name].policy = policy

    @both_live
    @rule(name=NAMES, pick=PICKS, message=st.sampled_from([None, "Use another.", "Do not."]))
    def deprecate(self, name: str, pick: int, message: str | None) -> None:
        model, sequence, reference = self._pick(name, pick)
        if message is None:
            self.desk.lifecycle.undeprecate("local", reference, actor=AUTHOR)
            model.deprecated.discard(sequence)
        else:
            self.desk.lifecycle.deprecate("local", reference, message, actor=AUTHOR)
            model.deprecated.add(sequence)

    # What is kept of versions, and what goes

    @both_live
    @rule(name=NAMES, pick=PICKS, data=BYTES)
    def add_document(self, name: str, pick: int, data: bytes) -> None:
        model, sequence, reference = self._pick(name, pick)
        content = Content("other", f"{data[0]}.bin", "application/octet-stream", len(data), put(self.store, data))
        self.documents.add("local", reference, content, actor=AUTHOR)
        model.added[sequence].add(data)

    @both_live
    @rule(name=NAMES, pick=PICKS, data=BYTES)
    def add_evaluation(self, name: str, pick: int, data: bytes) -> None:
        model, sequence, reference = self._pick(name, pick)
        said = task(reports=[{"name": "report.bin", "digest": put(self.store, data)}])
        self.evaluations.add("local", reference, EvaluationBody.read(json.dumps(said).encode()), actor=AUTHOR)
        model.added[sequence].add(data)

    @both_live
    @rule(name=NAMES, pick=PICKS)
    def add_signature(self, name: str, pick: int) -> None:
        model, sequence, reference = self._pick(name, pick)
        version = self.desk.registry.show("local", reference)
        data = sign(version.manifest, version.label, read_private(MINE.private))
        self.signatures.add("local", reference, put(self.store, data), MINE.public.decode(), actor=AUTHOR)
        model.added[sequence].add(data)
        model.signed.add(sequence)

    @both_live
    @rule(name=NAMES, pick=st.none() | PICKS)
    def hold_or_release(self, name: str, pick: int | None) -> None:
        model, sequence, reference = self.models[name], None, name
        if pick is not None:
            model, sequence, reference = self._pick(name, pick)
        if sequence in model.held:
            self.yard.holds.release("local", reference, reason="settled", actor=AUTHOR)
            model.held.remove(sequence)
        else:
            self.yard.holds.set("local", reference, reason="case 7", actor=AUTHOR)
            model.held.add(sequence)

    @both_live
    @rule(name=NAMES, pick=PICKS)
    def delete(self, name: str, pick: int) -> None:
        model, sequence, reference = self._pick(name, pick)
        expected = model.holders(sequence)
        try:
            self.yard.delete(reference)
        except Held as error:
            assert {holder["kind"] for holder in error.holders} == expected
            return
        assert not expected
        model.drop(sequence)

    @both_live
    @rule(name=NAMES, in_production=st.booleans())
    def delete_adapter(self, name: str, in_production: bool) -> None:
        model = self.models[name]
        why = first({Held: bool(model.held or (model.trail and not in_production))})
        with refused(why):
            self.yard.deletions.delete_adapter("local", name, actor=AUTHOR, in_production=in_production)
        if why is None:
            model.drop_all()

    @both_live
    @rule(name=NAMES, rules=RULES)
    def set_rules(self, name: str, rules: Rules) -> None:
        self.yard.retention.set("local", name, rules, actor=AUTHOR)
        self.models[name].rules = rules

    @rule(bounds=st.sampled_from([AT_ONCE, Bounds()]))
    def collect(self, bounds: Bounds) -> None:
        before, looked = self._stored(), self.yard.look(bounds)
        assert self.yard.collect(bounds) == looked
        for model in self.models.values():
            for sequence in model.going():
                model.drop(sequence)
        # A push may count on what is young; of the rest, every byte that nobody wants is gone.
        assert self._stored() == (before if bounds != AT_ONCE else {digest_of(data) for data in self._wanted()})
        assert self.yard.look(bounds).items == ()

    def _stored(self) -> set[str]:
        return {one.digest for one in self.store.list("local")}

    def _wanted(self) -> set[bytes]:
        live = [(weights, *model.added[one]) for model in self.models.values() for one, weights in model.live.items()]
        return {data for files in live for data in (CONFIG, *files)}

    # What always holds

    @invariant()
    def the_registry_is_as_the_model(self) -> None:
        """And the snapshot, which is read on from where it was, as if it were read whole."""
        snapshot = self.reader.current()
        assert snapshot == read_snapshot(self.desk.database)
        for name, model in self.models.items():
            view, state = snapshot.adapters.get(("local", name)), model.state(self._policy(name))
            self.seen.append((timestamp(self.desk.clock()), name, state, model.pointers()))
            if view is None:
                assert not model.live
                continue
            assert {version.sequence: state_of(version) for version in view.versions} == state
            assert {alias: version.sequence for alias, version in view.aliases.items()} == model.pointers()
            assert self.desk.registry.list_versions("local", name) == list(reversed(view.versions))
            bare = snapshot.resolve("local", Reference(None, name, Newest()))
            assert bare == self.desk.registry.show("local", name)

    @invariant()
    def one_is_in_production_no_pointer_dangles_and_the_chain_holds(self) -> None:
        pointers = (
            "SELECT a.adapter, a.alias, v.stage, v.deleted_at FROM aliases a LEFT JOIN versions v "
            "ON v.tenant = a.tenant AND v.adapter = a.adapter AND v.sequence = a.sequence"
        )
        with self.desk.database.reading() as tx:
            found = tx.execute(text(pointers)).all()
            assert all(row.stage is not None and row.deleted_at is None for row in found)
            named = sorted((row.adapter, row.stage) for row in found if row.alias == "production")
            staged = "SELECT adapter, stage FROM versions WHERE stage = 'production' AND deleted_at IS NULL"
            assert named == sorted(map(tuple, tx.execute(text(staged))))
            verify_chain(tx)

    @invariant()
    def no_version_has_lost_a_byte(self) -> None:
        for data in self._wanted():
            assert b"".join(self.store.open("local", digest_of(data))) == data

    def teardown(self) -> None:
        with closing(self.desk.database):
            for name, model in self.models.items():
                for sequence, added in model.added.items():
                    assert self._kept(f"adapters:/{name}/{sequence}") == {digest_of(data) for data in added}
            for moment in self.seen[::5]:
                self._check_past(*moment)

    def _kept(self, reference: str) -> set[str]:
        """Digests of what was added to a version, as those find it who ask for it."""
        evaluations = self.evaluations.list("local", reference).items
        reports = {report["digest"] for one in evaluations for report in one.body["reports"]}
        signatures = {one.bundle for one in self.signatures.of("local", reference)}
        documents = self.documents.page("local", reference, superseded=True).items
        return reports | signatures | {one.content.digest for one in documents if one.source == "added"}

    def _check_past(self, at: str, name: str, state: dict[int, dict[str, Any]], pointers: dict[str, int]) -> None:
        """At a time everything was as it was seen then, or has been deleted since."""
        if not state:
            with pytest.raises(NotFound):
                self.desk.registry.show("local", name, at=at)
            return
        newest = max(state)
        asked = {name: pointers.get("production", newest), f"adapters:/{name}/{newest}": newest}
        for reference, sequence in {**asked, **{f"{name}@{alias}": one for alias, one in pointers.items()}}.items():
            with refused(first({NotFound: sequence not in self.models[name].live})):
                found = self.desk.registry.show("local", reference, at=at)
                assert (found.sequence, state_of(found)) == (sequence, state[sequence])
        assert {one.alias: one.sequence for one in self.desk.registry.aliases("local", name, at=at)} == pointers


def test_the_registry_behaves_as_the_model(make_desk: Callable[[], Desk], tmp_path: Path) -> None:
    roots = (tmp_path / f"yard-{number}" for number in count())
    make = staticmethod(lambda: Yard(make_desk(), next(roots), store_url="memory://"))
    machine = type("Machine", (RegistryMachine,), {"make": make})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=times(6, 200),
            stateful_step_count=times(25, 50),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
