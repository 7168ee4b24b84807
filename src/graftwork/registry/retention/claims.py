"""claims_of: reads, in one transaction, what decides who needs an adapter's versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, and_, or_, select

from graftwork.access import events
from graftwork.db import Transaction
from graftwork.db.schema import rollout_arms, rollouts, versions
from graftwork.errors import InvalidRequest
from graftwork.registry.pointers import ever_in_production, live_trail, production_trail
from graftwork.registry.reference import parse_reference
from graftwork.registry.retention.holders import Claims
from graftwork.registry.retention.holds import holds_of
from graftwork.registry.retention.rules import rules_of
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import LIGHT, LIVE, Version
from graftwork.registry.view import AdapterView

#: The fields of a version's metadata that name what it was made of.
MADE_OF = ("parents", "merged_from")


@dataclass(frozen=True)
class Derivation:
    """A version, and what its metadata says it was made of."""

    child: Version
    parents: tuple[str, ...]


def derivations(tx: Transaction, tenant: str) -> list[Derivation]:
    """All of a tenant, from the versions that have parents at all."""
    says_so = or_(*(versions.c.metadata.contains(f'"{field}"') for field in MADE_OF))
    query = select(*LIGHT, versions.c.metadata).where(versions.c.tenant == tenant, LIVE, says_so)
    rows: Iterable[Row[Any]] = tx.execute(query)
    found = [Version.from_row(row) for row in rows]
    made = [Derivation(version, tuple(_parents(version.metadata or {}))) for version in found]
    return [one for one in made if one.parents]


def claims_of(tx: Transaction, view: AdapterView, derived: Sequence[Derivation]) -> Claims:
    """How an adapter stands now; `derived` are the derivations of its tenant."""
    live = {version.sequence for version in view.versions}
    past = events.read_events(tx, view.tenant, subject_of(view.name))
    return Claims(
        view=view,
        trail=live_trail(production_trail(past), live),
        promoted=ever_in_production(past),
        rollbacks=rules_of(tx, view.tenant, view.name).keep_rollbacks,
        holds=holds_of(tx, view.tenant, view.name),
        derivatives=derivatives_in(view, derived),
        rollouts=_rollouts(tx, view),
    )


def without_own(claims: Claims) -> Claims:
    """The same where an adapter's own versions do not count as made of one another: they go together."""
    own = claims.view.name
    others = {
        sequence: [child for child in children if child.adapter != own]
        for sequence, children in claims.derivatives.items()
    }
    return replace(claims, derivatives=others)


def derivatives_in(view: AdapterView, derived: Sequence[Derivation]) -> dict[int, list[Version]]:
    """By sequence number of a version of `view`: those that were made of it."""
    found: dict[int, list[Version]] = {}
    for one in derived:
        for parent in one.parents:
            version = _meant(view, parent)
            if version is not None and (version.adapter, version.sequence) != (one.child.adapter, one.child.sequence):
                found.setdefault(version.sequence, []).append(one.child)
    return found


def _rollouts(tx: Transaction, view: AdapterView) -> dict[int, list[str]]:
    of_arm = and_(*(rollouts.c[name] == rollout_arms.c[name] for name in ("tenant", "route", "revision")))
    query = select(rollout_arms.c.sequence, rollouts.c.route).join(rollouts, of_arm)
    own = (rollout_arms.c.tenant == view.tenant, rollout_arms.c.adapter == view.name, rollouts.c.ended_at.is_(None))
    found: dict[int, list[str]] = {}
    for row in tx.execute(query.where(*own).order_by(rollouts.c.route)):
        found.setdefault(row.sequence, []).append(row.route)
    return found


def _parents(metadata: Mapping[str, Any]) -> Iterator[str]:
    for field in MADE_OF:
        told = metadata.get(field)
        yield from (text for text in (told if isinstance(told, list | tuple) else ()) if isinstance(text, str))


def _meant(view: AdapterView, parent: str) -> Version | None:
    with suppress(InvalidRequest):  # free text names nothing
        reference = parse_reference(parent)
        if reference.name == view.name and reference.tenant in (None, view.tenant):
            return view.find(reference.selector)
    return None
