"""Observations read from records: only what gates look at, and what was said of each answer afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, select

from graftwork.db import Transaction
from graftwork.db.schema import feedback, predictions
from graftwork.traffic.observation import Observation

#: The columns of an observation, in the order of its fields; by name, they would be read at half the speed.
_SEEN = tuple(
    predictions.c[name]
    for name in (
        *("at", "arm", "digest", "outcome", "latency_s", "ttft_s", "prompt_tokens", "output_tokens", "mean_logprob"),
        *("finish_reason", "empty", "repetitive", "refusal", "format_valid"),
    )
)
_NOTHING: Mapping[str, float] = {}


def observations(tx: Transaction, where: tuple[ColumnElement[bool], ...], *, limit: int) -> list[Observation]:
    """Of the records that are meant, the newest `limit` in order; whoever was refused says nothing of a version."""
    counts = and_(*where, predictions.c.arm.is_not(None), predictions.c.outcome != "refused")
    newest = predictions.c.at.desc(), predictions.c.request_id.desc()
    query = select(predictions.c.request_id, *_SEEN).where(counts).order_by(*newest).limit(limit)
    rows: Sequence[Row[Any]] = tx.execute(query).all()
    if not rows:
        return []
    said = select(feedback.c.request_id, feedback.c.name, feedback.c.value).join(
        predictions,
        and_(predictions.c.tenant == feedback.c.tenant, predictions.c.request_id == feedback.c.request_id),
    )
    scores = _scores(tx, said.where(counts, predictions.c.at >= rows[-1].at, feedback.c.value.is_not(None)))
    return [Observation(*(*row[1:], scores.get(row.request_id, _NOTHING))) for row in reversed(rows)]


def _scores(tx: Transaction, said: Select[Any]) -> dict[str, dict[str, float]]:
    """Numbers by request and name; of several sources their mean."""
    found: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for request_id, name, value in tx.execute(said):
        found[request_id].setdefault(name, []).append(value)
    return {
        request_id: {name: sum(values) / len(values) for name, values in named.items()}
        for request_id, named in found.items()
    }
