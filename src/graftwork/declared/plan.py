"""Plan: what becomes of each resource, and whether that is still what somebody has seen; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from graftwork.declared.document import about
from graftwork.declared.resource_kind import Spec, label_of
from graftwork.errors import GraftworkError, InvalidRequest, PreconditionFailed
from graftwork.protocol.canonical import sha256
from graftwork.protocol.declared import Action, Prune
from graftwork.registry.owners import Owner
from graftwork.registry.pointers import ABSENT

_NOTHING: Final = object()
#: Fields of one step that are told; the rest is counted in the last.
_TOLD: Final = 200


@dataclass(frozen=True)
class Step:
    """What becomes of one resource."""

    kind: str
    name: str
    action: Action
    live: str  #: digest of the spec that it has now, or ABSENT
    after: str  #: of the one that it shall have, or ABSENT
    fields: tuple[Mapping[str, Any], ...] = ()
    document: int | None = None
    note: str | None = None
    secret: str | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return label_of(self.kind, self.name)

    @property
    def changes(self) -> bool:
        return self.action != "unchanged"

    def to_json(self, *, applied: bool) -> dict[str, Any]:
        """A secret is told where it is one from now on."""
        told = {name: getattr(self, name) for name in ("kind", "name", "action", "live", "document", "note")}
        secret = {} if self.secret is None or not applied else {"secret": self.secret}
        return {**told, "fields": list(self.fields), **secret}


@dataclass(frozen=True)
class Problem:
    """Why a step cannot be taken."""

    step: Step
    #: As a caller is told it: about which resource, and where in which document.
    error: GraftworkError

    @classmethod
    def of(cls, step: Step, error: GraftworkError) -> Problem:
        if isinstance(error, InvalidRequest) and step.document is not None:
            error = about(step.document, error)
        error.args = (f"{step.label}: {error.message}",)
        return cls(step, error)

    def to_json(self) -> dict[str, Any]:
        field = getattr(self.error, "field", None)
        return {"message": self.error.message, "document": self.step.document, "field": field}


@dataclass(frozen=True)
class Plan:
    """All steps, in the order in which they are taken."""

    set: str
    prune: Prune | None
    steps: tuple[Step, ...]
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changed(self) -> list[Step]:
        return [step for step in self.steps if step.changes]

    @property
    def digest(self) -> str:
        """Another one where anything else would be done, or to anything else."""
        told = [[step.kind, step.name, step.action, step.live, step.after] for step in self.steps]
        return sha256(json.dumps([self.set, self.prune, told]))

    def check_possible(self) -> None:
        """Raises what stands in the way first, which says that nothing was done, and what else there is to see."""
        for problem in self.problems[:1]:
            more = f"; `graftwork plan` tells {len(self.problems) - 1} more" if len(self.problems) > 1 else ""
            problem.error.args = (f"{problem.error.message} Nothing was changed{more}.",)
            raise problem.error

    def check_seen(self, digest: str, live: Mapping[str, str]) -> None:
        """Raises PreconditionFailed where this is not the plan of that digest, naming what has moved since."""
        if digest == self.digest:
            return
        moved = [step.label for step in self.steps if live.get(step.label, step.live) != step.live]
        why = f"{', '.join(moved[:5])} changed since" if moved else "what is applied is not what was planned"
        raise PreconditionFailed(f"This is no longer the plan that you saw: {why}; plan again.")

    def to_json(self, *, applied: bool) -> dict[str, Any]:
        return {
            "set": self.set,
            "prune": self.prune,
            "digest": self.digest,
            "changes": len(self.changed),
            "applied": applied,
            "steps": [step.to_json(applied=applied) for step in self.steps],
            "problems": [problem.to_json() for problem in self.problems],
            "warnings": list(self.warnings),
        }


def step_to(
    kind: str, name: str, wanted: Spec, live: Spec | None, *, document: int | None, note: str | None = None
) -> Step:
    """From what there is to what shall be. Specs are compared as they are written: the order of a schema counts."""
    before, after = digest_of(live), digest_of(wanted)
    if live is None:
        return Step(kind, name, "create", before, after, (), document, note)
    if before == after:
        return Step(kind, name, "unchanged", before, after, (), document, note)
    found = list(_differences(live, wanted, "spec"))
    if not found:
        note = "; ".join(one for one in (note, "the same in another order") if one)
    if len(found) > _TOLD:
        found = [*found[:_TOLD], {"field": f"and {len(found) - _TOLD} more"}]
    return Step(kind, name, "update", before, after, tuple(found), document, note)


def going(
    live: Mapping[tuple[str, str], Spec],
    kept: Sequence[tuple[str, str]],
    owners: Mapping[tuple[str, str], Owner],
    own: str | None,
) -> Iterator[tuple[tuple[str, str], str | None]]:
    """What pruning takes away, and what it leaves though it once made it, with the reason: all, without a set.

    Of the set `own` only what still is as it left it: who has changed it by hand, or made it again, keeps it.
    """
    for key in live.keys() - set(kept):
        owner = owners.get(key)
        if own is None:
            yield key, None
        elif owner is not None and owner.set == own:
            yield key, None if owner.digest == digest_of(live[key]) else "changed by others since it was applied"


def digest_of(spec: Spec | None) -> str:
    return ABSENT if spec is None else sha256(json.dumps(spec))


def _differences(before: Any, after: Any, place: str) -> Iterator[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            yield from _differences(before.get(name, _NOTHING), after.get(name, _NOTHING), f"{place}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for at in range(max(len(before), len(after))):
            was, shall = (end[at] if at < len(end) else _NOTHING for end in (before, after))
            yield from _differences(was, shall, f"{place}.{at}")
    elif before != after or type(before) is not type(after):
        told = {"before": before, "after": after}
        yield {"field": place, **{name: value for name, value in told.items() if value is not _NOTHING}}
