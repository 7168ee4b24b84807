"""measured: the numbers in a version's evaluations, the newest of each evaluation, split and source."""

from __future__ import annotations

from sqlalchemy import and_, select

from graftwork.db import Transaction
from graftwork.db.schema import evaluations, metrics
from graftwork.registry.cards.facts import Measured
from graftwork.registry.evaluations.rows import is_current, last_number
from graftwork.registry.versions import Version

_KEY = ("tenant", "adapter", "sequence", "number")


def measured_of(tx: Transaction, version: Version) -> tuple[list[Measured], int]:
    """What was measured of a version, by family, name, split and source; and how many evaluations there are.

    What a correction supersedes is left out, also where it is of another name.
    """
    columns = [evaluations.c[name] for name in ("number", "family", "name", "split", "source")]
    query = (
        select(*columns, metrics.c.name.label("metric"), metrics.c.value)
        .outerjoin(metrics, and_(*(evaluations.c[column] == metrics.c[column] for column in _KEY)))
        .where(
            evaluations.c.tenant == version.tenant,
            evaluations.c.adapter == version.adapter,
            evaluations.c.sequence == version.sequence,
            is_current(evaluations),
        )
        .order_by(evaluations.c.number)
    )
    newest: dict[tuple[str, ...], tuple[int, Measured]] = {}
    for row in tx.execute(query):
        key = (row.family, row.name, row.split, row.source)
        if newest.get(key, (0,))[0] != row.number:
            newest[key] = row.number, Measured(row.name, row.split, row.family, row.source, {})
        if row.metric is not None:
            newest[key] = row.number, _with(newest[key][1], row.metric, row.value)
    return [one for _, (_, one) in sorted(newest.items())], last_number(tx, version)


def _with(one: Measured, metric: str, value: float) -> Measured:
    return Measured(one.name, one.split, one.family, one.source, {**one.metrics, metric: value})
