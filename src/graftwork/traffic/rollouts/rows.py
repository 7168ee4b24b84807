"""The SQL of rollouts, their arms and their changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, select, tuple_, update

from graftwork.access.clock import timestamp
from graftwork.db import Transaction
from graftwork.db.schema import rollout_arms, rollout_steps, rollouts, versions
from graftwork.protocol.canonical import canonical, parse
from graftwork.traffic.rollouts.rollout import ArmVersion, Rollout
from graftwork.traffic.rollouts.state import State

LIVE = rollouts.c.ended_at.is_(None)


def insert(tx: Transaction, rollout: Rollout) -> None:
    key = {"tenant": rollout.tenant, "route": rollout.route, "revision": rollout.revision}
    row = {
        **key,
        "spec": canonical(dict(rollout.spec), what="spec"),
        "status": rollout.state.status,
        "state": canonical(rollout.state.to_json(), what="state"),
        "changes": rollout.changes,
        "analyses": None,
        "created_at": rollout.created_at,
        "created_by": rollout.created_by,
        "updated_at": rollout.updated_at,
        "ended_at": rollout.ended_at,
    }
    tx.execute(rollouts.insert().values(row))
    arms = [
        {**key, "arm": name, "adapter": one.adapter, "sequence": one.sequence} for name, one in rollout.arms.items()
    ]
    tx.execute(rollout_arms.insert(), arms)


def write_state(tx: Transaction, before: Rollout, after: State, *, changes: int, at: str) -> None:
    """Nobody else has changed it since `before` was read in this transaction: writers take turns."""
    row = {
        "status": after.status,
        "state": canonical(after.to_json(), what="state"),
        "changes": changes,
        "updated_at": at,
        "ended_at": timestamp(after.entered_at) if after.ended else None,
    }
    tx.execute(update(rollouts).where(_at(before.tenant, before.route, before.revision)).values(row))


def write_seen(tx: Transaction, rollout: Rollout, analyses: Sequence[Mapping[str, Any]], waits_for: str | None) -> None:
    """How its arms stand, and what it waits for; no change of it, so that no event tells of it."""
    row = {"analyses": canonical([dict(one) for one in analyses], what="analyses"), "waits_for": waits_for}
    tx.execute(update(rollouts).where(_at(rollout.tenant, rollout.route, rollout.revision)).values(row))


def insert_step(tx: Transaction, rollout: Rollout, number: int, row: Mapping[str, Any]) -> None:
    key = {"tenant": rollout.tenant, "route": rollout.route, "revision": rollout.revision, "number": number}
    tx.execute(rollout_steps.insert().values({**key, **row}))


def newest(tx: Transaction, tenant: str, route: str) -> Rollout | None:
    found = read(tx, and_(rollouts.c.tenant == tenant, rollouts.c.route == route, _NEWEST))
    return found[0] if found else None


def at_revision(tx: Transaction, tenant: str, route: str, revision: int) -> Rollout | None:
    found = read(tx, _at(tenant, route, revision))
    return found[0] if found else None


def all_live(tx: Transaction) -> list[Rollout]:
    return read(tx, LIVE)


def live_of(tx: Transaction, keys: Collection[tuple[str, str]]) -> list[Rollout]:
    """Those of these (tenant, route) that have not ended."""
    return read(tx, and_(tuple_(rollouts.c.tenant, rollouts.c.route).in_(list(keys)), LIVE))


def page(tx: Transaction, tenant: str, *, status: str | None, after: str, limit: int) -> list[Rollout]:
    """The newest of each route, by route."""
    wanted = [rollouts.c.tenant == tenant, rollouts.c.route > after, _NEWEST]
    wanted += [rollouts.c.status == status] if status is not None else []
    return read(tx, and_(*wanted), limit=limit)


def specs_of(tx: Transaction, tenant: str, route: str) -> list[tuple[int, dict[str, Any]]]:
    """What every rollout of a route was begun by, by its revision, the newest first."""
    own = and_(rollouts.c.tenant == tenant, rollouts.c.route == route)
    found = tx.execute(select(rollouts.c.revision, rollouts.c.spec).where(own).order_by(rollouts.c.revision.desc()))
    return [(row.revision, parse(row.spec)) for row in found]


def steps(tx: Transaction, tenant: str, route: str, *, before: tuple[int, int] | None, limit: int) -> list[Row[Any]]:
    """The changes of all rollouts of a route, the newest first; `before` is a revision and the number of a change."""
    own = and_(rollout_steps.c.tenant == tenant, rollout_steps.c.route == route)
    if before is not None:
        own = and_(own, tuple_(rollout_steps.c.revision, rollout_steps.c.number) < before)
    order = rollout_steps.c.revision.desc(), rollout_steps.c.number.desc()
    return list(tx.execute(select(rollout_steps).where(own).order_by(*order).limit(limit)))


def read(tx: Transaction, where: ColumnElement[bool], *, limit: int | None = None) -> list[Rollout]:
    """By tenant, route and revision."""
    order = rollouts.c.tenant, rollouts.c.route, rollouts.c.revision
    found = list(tx.execute(select(rollouts).where(where).order_by(*order).limit(limit)))
    arms = _arms(tx, [(row.tenant, row.route, row.revision) for row in found])
    return [_rollout(row, arms[row.tenant, row.route, row.revision]) for row in found]


def _arms(tx: Transaction, keys: Collection[tuple[str, str, int]]) -> dict[tuple[str, str, int], dict[str, ArmVersion]]:
    if not keys:
        return {}
    of_version = and_(
        *(rollout_arms.c[name] == versions.c[name] for name in ("tenant", "adapter", "sequence")),
    )
    key = tuple_(rollout_arms.c.tenant, rollout_arms.c.route, rollout_arms.c.revision)
    query = select(rollout_arms, versions.c.semver, versions.c.digest).join(versions, of_version).where(key.in_(keys))
    found: dict[tuple[str, str, int], dict[str, ArmVersion]] = {}
    for row in tx.execute(query):
        one = ArmVersion(row.arm, row.adapter, row.sequence, row.semver, row.digest)
        found.setdefault((row.tenant, row.route, row.revision), {})[row.arm] = one
    return found


def _rollout(row: Row[Any], arms: Mapping[str, ArmVersion]) -> Rollout:
    told = {name: value for name, value in row._mapping.items() if name not in ("status", "spec", "state", "analyses")}
    analyses = parse(row.analyses) if row.analyses is not None else ()
    state = State.from_json(parse(row.state))
    return Rollout(**told, spec=parse(row.spec), state=state, arms=arms, analyses=analyses)


def _at(tenant: str, route: str, revision: int) -> ColumnElement[bool]:
    return and_(rollouts.c.tenant == tenant, rollouts.c.route == route, rollouts.c.revision == revision)


_other = rollouts.alias("other")
_NEWEST = (
    rollouts.c.revision
    == select(func.max(_other.c.revision))
    .where(_other.c.tenant == rollouts.c.tenant, _other.c.route == rollouts.c.route)
    .correlate(rollouts)
    .scalar_subquery()
)
