"""Applier: plans what documents ask for, and does it; all in one transaction, or nothing."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.roles import Right
from graftwork.db import Database, Transaction
from graftwork.declared.desk import Desk, Services
from graftwork.declared.document import Declared
from graftwork.declared.kinds import all_kinds, kind_of
from graftwork.declared.links import unresolved
from graftwork.declared.plan import Plan, Problem, Step, digest_of, going, step_to
from graftwork.declared.resource_kind import ResourceKind, Spec, label_of
from graftwork.errors import Conflict, Forbidden, InvalidRequest, NotFound, Refused
from graftwork.protocol.declared import Prune, SeenPlan
from graftwork.registry.owners import Key, Owner, own, owners_of

APPLIED: Final = "resources.applied"
SUBJECTS: Final = "sets/"
#: What is wrong with a step; anything else is wrong with the server.
_TOLD = (InvalidRequest, NotFound, Conflict, Forbidden, Refused)


@dataclass(frozen=True)
class Asked:
    """What somebody asks for."""

    tenant: str
    actor: str
    rights: Set[Right]
    documents: Sequence[Declared]  #: in the order in which they are applied
    set: str
    prune: Prune | None = None
    implied: bool = False  #: nobody wrote the set's name, so that it may be another's, too
    reason: str | None = None


class _Undone(Exception):
    """What was tried is taken back."""


class Applier:
    """For use from any thread. A plan is made by doing what it says and taking it back, so that both agree.

    Rights are those of each single change: whoever may not make one by its own door may not make it here.
    """

    def __init__(self, database: Database, services: Services, base: str, clock: Clock = utc_now) -> None:
        self._database, self._services, self._base, self._clock = database, services, base, clock

    def plan(self, asked: Asked) -> Plan:
        """What would be done, and what stands in the way; nothing is.

        It takes a turn of the writer only where there is something to try: where nothing changes, reading says so.
        """
        at = timestamp(self._clock())
        with self._database.reading() as tx:
            plan = _Work(self._desk(tx, asked), asked, at, tries=False).done()
        if not plan.changed and not plan.problems:
            return plan
        try:
            with self._database.transaction() as tx:
                plan = _Work(self._desk(tx, asked), asked, at).done()
                raise _Undone
        except _Undone:
            return plan

    def apply(self, asked: Asked, *, seen: SeenPlan | None = None) -> Plan:
        """Do it; no event where nothing changes, nor whose it is.

        Raises:
            GraftworkError: what stood in the way first; nothing was done.
            PreconditionFailed: it would not be the plan that was `seen`.
        """
        with self._database.transaction() as tx:
            at = timestamp(self._clock())
            work = _Work(self._desk(tx, asked), asked, at)
            plan = work.done()
            if seen is not None:
                plan.check_seen(seen.digest, seen.live)
            plan.check_possible()
            if plan.changed or work.owned:
                told = {step.label: step.action for step in plan.changed}
                owned = [label for key in work.owned if (label := label_of(*key)) not in told]
                said = {"set": plan.set, "plan": plan.digest, "changes": told, "owned": owned, "reason": asked.reason}
                events.append(tx, asked.tenant, asked.actor, APPLIED, f"{SUBJECTS}{plan.set}", said, at=at)
            return plan

    def export(
        self, tenant: str, rights: Set[Right], kinds: Sequence[str] = ()
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The documents of all that there is, or of these kinds; and the kinds that one may not see.

        Raises:
            InvalidRequest: there is no such kind.
        """
        named = {kind_of(word).word for word in kinds}
        wanted = [kind for kind in all_kinds() if (kind.word in named if named else kind.state)]
        with self._database.reading() as tx:
            desk = Desk(tx, self._services.within(tx), self._base, tenant, "", rights)
            seen = [kind for kind in wanted if kind.reading in rights]
            found = [kind.document(name, spec) for kind in seen for name, spec in sorted(kind.live(desk).items())]
        return found, [kind.word for kind in wanted if kind not in seen]

    def _desk(self, tx: Transaction, asked: Asked) -> Desk:
        within = self._services.within(tx)
        return Desk(tx, within, self._base, asked.tenant, asked.actor, asked.rights, asked.reason)


class _Work:
    """One plan being made, and done where it `tries` to: else what comes later does not find what came before."""

    def __init__(self, desk: Desk, asked: Asked, at: str, *, tries: bool = True) -> None:
        self._desk, self._asked, self._at, self._tries = desk, asked, at, tries
        self._owners = owners_of(desk.tx, asked.tenant)
        self._steps: list[Step] = []
        self._problems: list[Problem] = []
        self._live: dict[str, dict[str, Spec]] = {}
        self.owned: dict[Key, Owner] = {}  #: what becomes the set's, or is the set's at another spec from now on

    def done(self) -> Plan:
        asked = self._asked
        warnings = self._check_set()
        for document in asked.documents:
            self._declare(document)
        if asked.prune is not None:
            self._prune()
        if self._tries and not self._problems:
            own(self._desk.tx, asked.tenant, self.owned, at=self._at)
        warnings += unresolved(self._desk, asked.documents) if not self._problems else []
        return Plan(asked.set, asked.prune, tuple(self._steps), tuple(self._problems), tuple(warnings))

    def _check_set(self) -> list[str]:
        """What is to be told where a set has a name that nobody wrote, and has none of the documents.

        Raises:
            Conflict: it is to be pruned, and then all that it has would go.
        """
        asked, name = self._asked, self._asked.set
        held, said = {key for key, owner in self._owners.items() if owner.set == name}, asked.documents
        if not asked.implied or not held or any(document.key in held for document in said):
            return []
        has = "1 resource" if len(held) == 1 else f"{len(held)} resources"
        known = f"The set {name} has {has} and none of these documents: another folder may be called so."
        if asked.prune == "set":
            raise Conflict(
                f"{known} To replace all that it has, say --set {name}; else give these another name by --set."
            )
        return [f"{known} Give these another name by --set."] if any(one.kind.removable for one in said) else []

    def _declare(self, document: Declared) -> None:
        kind, (word, name) = document.kind, document.key
        blank = Step(word, name, "unchanged", "", "", document=document.place)
        try:
            live = self._of(kind).get(name)
            wanted, seen, note = kind.wanted(self._desk, document.body, live)
        except _TOLD as error:
            self._problems.append(Problem.of(blank, error))
            return
        step = step_to(word, name, wanted, seen, document=document.place, note=self._note(document.key, note))
        if step.changes and self._tries:
            step = self._take(kind, step, document)
        self._steps.append(step)
        owner, before = Owner(self._asked.set, digest_of(wanted)), self._owners.get(document.key)
        by_hand = before is None and not step.changes  # and just so: it stays nobody's
        if kind.removable and before != owner and not by_hand:
            self.owned[document.key] = owner

    def _note(self, key: Key, note: str | None) -> str | None:
        owner = self._owners.get(key)
        taken = f"taken over from the set {owner.set}" if owner is not None and owner.set != self._asked.set else None
        return "; ".join(one for one in (note, taken) if one) or None

    def _prune(self) -> None:
        """What comes last is taken away first: nothing names what has gone."""
        kept = [document.key for document in self._asked.documents]
        kinds = [kind for kind in reversed(all_kinds()) if kind.removable]
        if self._asked.prune == "set":
            owned = {kind for (kind, _), owner in self._owners.items() if owner.set == self._asked.set}
            kinds = [kind for kind in kinds if kind.word in owned]
        for kind in kinds:
            live = {(kind.word, name): spec for name, spec in self._of(kind).items()}
            only = self._asked.set if self._asked.prune == "set" else None
            for (word, name), why in sorted(going(live, kept, self._owners, only)):
                before = digest_of(live[word, name])
                if why is not None:
                    self._steps.append(Step(word, name, "unchanged", before, before, note=f"not pruned: {why}"))
                else:
                    step = Step(word, name, "delete", before, "absent", note=self._note((word, name), None))
                    self._steps.append(self._take(kind, step, None) if self._tries else step)

    def _take(self, kind: ResourceKind[Any], step: Step, document: Declared | None) -> Step:
        """Do a step, if one may; what stands in its way is kept, and the next one is looked at."""
        try:
            if kind.right not in self._desk.rights:
                raise Forbidden(f"Your key may not do this: it needs the right to {kind.right}.")
            if document is not None:
                return replace(step, secret=kind.set(self._desk, document.body))
            kind.remove(self._desk, step.name)
        except _TOLD as error:
            self._problems.append(Problem.of(step, error))
            return replace(step, note="refused")
        return step

    def _of(self, kind: ResourceKind[Any]) -> dict[str, Spec]:
        """What there was of a kind before anything was done to it."""
        if kind.reading not in self._desk.rights:
            raise Forbidden(f"Your key may not see a {kind.word}: it needs the right to {kind.reading}.")
        if kind.word not in self._live:
            names = [document.name for document in self._asked.documents if document.kind is kind]
            found = kind.live(self._desk) if kind.removable else kind.named(self._desk, names)
            self._live[kind.word] = dict(found)
        return self._live[kind.word]
