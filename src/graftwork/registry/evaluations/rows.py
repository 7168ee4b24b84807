"""Evaluation: one record of what was measured of a version, never changed; and the SQL of evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, func, select

from graftwork.db import Transaction
from graftwork.db.schema import evaluations, metrics, versions
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.versions import LIVE, Version

_KEY = ("tenant", "adapter", "sequence")
_LATER = evaluations.alias("later")


@dataclass(frozen=True)
class Evaluation:
    """What was measured, as it was said, and where it stands among the evaluations of its version."""

    tenant: str
    adapter: str
    sequence: int
    version: str  #: its semantic version
    digest: str  #: of the version
    number: int  #: 1, 2, 3 … of the version
    comparable: str  #: digest of family, name, split, source and what it was measured on
    body: Mapping[str, Any]
    superseded_by: int | None
    created_at: str  #: RFC 3339, UTC, microseconds
    created_by: str

    @classmethod
    def from_row(cls, row: Row[Any]) -> Evaluation:
        return cls(**{**row._mapping, "body": parse(row.body)})

    def to_json(self) -> dict[str, Any]:
        data = {name: value for name, value in self.__dict__.items() if name not in ("body", "comparable")}
        return {**data, "evaluation": self.body}


def insert(
    tx: Transaction, version: Version, row: Mapping[str, Any], values: Mapping[str, float], *, at: str, actor: str
) -> int:
    """Write an evaluation under the version's next number, which is returned, and its metrics."""
    key = {name: getattr(version, name) for name in _KEY}
    number = last_number(tx, version) + 1
    tx.execute(evaluations.insert().values(**key, number=number, **row, created_at=at, created_by=actor))
    if values:
        told = [{**key, "number": number, "name": name, "value": value} for name, value in values.items()]
        tx.execute(metrics.insert(), told)
    return number


def last_number(tx: Transaction, version: Version) -> int:
    query = select(func.coalesce(func.max(evaluations.c.number), 0)).where(_of(version))
    return int(tx.execute(query).scalar_one())


def at_number(tx: Transaction, version: Version, number: int) -> Evaluation | None:
    row = tx.execute(_read().where(_of(version), evaluations.c.number == number)).first()
    return Evaluation.from_row(row) if row is not None else None


def page(
    tx: Transaction, version: Version, *, family: str | None, name: str | None, before: int | None, limit: int
) -> list[Evaluation]:
    """A version's evaluations, the newest first, from the one before number `before`."""
    query = _read().where(_of(version))
    if family is not None:
        query = query.where(evaluations.c.family == family)
    if name is not None:
        query = query.where(evaluations.c.name == name)
    if before is not None:
        query = query.where(evaluations.c.number < before)
    rows = tx.execute(query.order_by(evaluations.c.number.desc()).limit(limit))
    return [Evaluation.from_row(row) for row in rows]


def current(tx: Transaction, version: Version) -> list[Evaluation]:
    """Of each thing that was measured the last evaluation that nothing supersedes, in their order."""
    newest = (
        select(func.max(evaluations.c.number))
        .outerjoin_from(evaluations, _LATER, _supersedes())
        .where(_of(version), _LATER.c.number.is_(None))
        .group_by(evaluations.c.comparable)
        .correlate(None)
    )
    rows = tx.execute(_read().where(_of(version), evaluations.c.number.in_(newest)).order_by(evaluations.c.number))
    return [Evaluation.from_row(row) for row in rows]


def with_metric(tx: Transaction, tenant: str, adapter: str, metric: str, *, limit: int) -> list[Evaluation]:
    """An adapter's evaluations that have a metric and that nothing supersedes, the newest `limit`, newest first."""
    query = (
        _read()
        .join(metrics, and_(*(metrics.c[name] == evaluations.c[name] for name in (*_KEY, "number"))))
        .where(
            evaluations.c.tenant == tenant,
            evaluations.c.adapter == adapter,
            metrics.c.name == metric,
            _LATER.c.number.is_(None),
        )
        .order_by(evaluations.c.sequence.desc(), evaluations.c.number.desc())
    )
    return [Evaluation.from_row(row) for row in tx.execute(query.limit(limit))]


def metrics_of(tx: Transaction, tenant: str, adapter: str) -> set[str]:
    """What was measured of any version of an adapter, also in evaluations that others supersede."""
    own = and_(metrics.c.tenant == tenant, metrics.c.adapter == adapter)
    return set(tx.execute(select(metrics.c.name).where(own).distinct()).scalars())


def held(tx: Transaction, tenant: str) -> set[tuple[str, int, str]]:
    """(adapter, sequence, digest) of every file that evaluations of the tenant's versions name."""
    query = select(evaluations.c.adapter, evaluations.c.sequence, evaluations.c.blobs)
    rows = tx.execute(query.where(evaluations.c.tenant == tenant, evaluations.c.blobs != "[]"))
    return {(row.adapter, row.sequence, digest) for row in rows for digest in parse(row.blobs)}


def blobs_text(digests: Iterable[str]) -> str:
    return canonical(sorted(set(digests)), what="blobs")


def _read() -> Select[Any]:
    columns = [evaluations.c[name] for name in (*_KEY, "number", "comparable", "body", "created_at", "created_by")]
    return (
        select(*columns, versions.c.semver.label("version"), versions.c.digest, _LATER.c.number.label("superseded_by"))
        .join_from(evaluations, versions, and_(LIVE, *(versions.c[name] == evaluations.c[name] for name in _KEY)))
        .outerjoin(_LATER, _supersedes())
    )


def is_current(row: Any) -> ColumnElement[bool]:
    """Whether nothing supersedes the evaluation that a row of evaluations or metrics is of."""
    later = evaluations.alias()
    same = (later.c[name] == row.c[name] for name in _KEY)
    return ~select(later.c.number).where(*same, later.c.supersedes == row.c.number).correlate_except(later).exists()


def _supersedes() -> ColumnElement[bool]:
    same = (_LATER.c[name] == evaluations.c[name] for name in _KEY)
    return and_(*same, _LATER.c.supersedes == evaluations.c.number)


def _of(version: Version) -> ColumnElement[bool]:
    return and_(*(evaluations.c[name] == getattr(version, name) for name in _KEY))
