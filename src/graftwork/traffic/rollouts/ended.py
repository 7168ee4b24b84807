"""EndedRollouts: the part of a snapshot that says how the last rollout of a route ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, and_, func, select, tuple_

from graftwork.db import Transaction
from graftwork.db.schema import rollouts
from graftwork.registry.snapshot import Changed
from graftwork.traffic.rollouts.subjects import route_in
from graftwork.traffic.sessions.pin import Ending


@dataclass(frozen=True)
class EndedRollouts:
    """By (tenant, route): the revision of the last one that has ended, and how."""

    by_route: Mapping[tuple[str, str], tuple[int, Ending]] = field(default_factory=dict)

    def ending(self, tenant: str, route: str, rollout: str) -> Ending | None:
        """How `rollout`, named as `support/3`, ended; None where it runs. Others that followed have superseded it."""
        revision, status = self.by_route.get((tenant, route), (0, None))
        wanted = int(rollout.rpartition("/")[2])
        if wanted == revision:
            return status
        return "superseded" if wanted < revision else None


def read_ended(tx: Transaction, known: Any, changed: Changed) -> EndedRollouts:
    """A `ReadPart`: only routes whose rollouts the log has spoken of are read again."""
    if changed is None or known is None:
        return EndedRollouts(dict(_last(tx, rollouts.c.ended_at.is_not(None))))
    keys = {(tenant, route) for tenant, subject in changed if (route := route_in(subject)) is not None}
    if not keys:
        assert isinstance(known, EndedRollouts), "it was read here"
        return known
    own = and_(tuple_(rollouts.c.tenant, rollouts.c.route).in_(list(keys)), rollouts.c.ended_at.is_not(None))
    return EndedRollouts({**known.by_route, **dict(_last(tx, own))})


def _last(tx: Transaction, which: ColumnElement[bool]) -> Iterator[tuple[tuple[str, str], tuple[int, Ending]]]:
    key = rollouts.c.tenant, rollouts.c.route
    last = select(*key, func.max(rollouts.c.revision).label("revision")).where(which).group_by(*key).subquery()
    same = and_(*(rollouts.c[name] == last.c[name] for name in ("tenant", "route", "revision")))
    for row in tx.execute(select(*key, rollouts.c.revision, rollouts.c.status).join(last, same)):
        yield (row.tenant, row.route), (row.revision, row.status)
