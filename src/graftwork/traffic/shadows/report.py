"""report_of: what diffs say of each pair of versions; pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from statistics import fmean
from typing import Any, Final

from graftwork.traffic.shadows.diff import Diff

#: Part of such reports, looked at as often as one likes, in which a rate is anywhere outside its interval.
ALPHA: Final = 0.05
#: Requests that differ most, by pair.
WORST: Final = 10


def report_of(diffs: Iterable[Diff]) -> list[dict[str, Any]]:
    """One entry for each pair of versions, by the newest of its diffs; `protocol.shadows.PairAnswer` has its shape."""
    pairs: dict[tuple[str, str], list[Diff]] = defaultdict(list)
    for one in diffs:
        pairs[one.digest, one.shadow_digest].append(one)
    return [_pair(found) for found in sorted(pairs.values(), key=_newest, reverse=True)]


def quantile(values: Collection[float], p: float) -> float | None:
    """The least value that a part `p` of them do not exceed; None of none."""
    return sorted(values)[max(0, math.ceil(p * len(values)) - 1)] if values else None


def _pair(diffs: Sequence[Diff]) -> dict[str, Any]:
    newest = max(diffs, key=lambda one: one.at)
    compared = [one for one in diffs if one.outcome == "ok"]
    failed = Counter(one.outcome for one in diffs)
    return {
        "model": newest.model,
        "digest": newest.digest,
        "shadow_model": newest.shadow_model,
        "shadow_digest": newest.shadow_digest,
        "rollouts": sorted({one.rollout for one in diffs}),
        "first": min(one.at for one in diffs),
        "last": newest.at,
        "copies": len(diffs),
        "compared": len(compared),
        "sampled": sum(one.sampled for one in compared),
        "errors": failed["error"],
        "timeouts": failed["timeout"],
        "failure": _rate(len(diffs) - len(compared), len(diffs)),
        "exact": _rate(sum(bool(one.exact) for one in compared), len(compared)),
        "normalised": _rate(sum(bool(one.normalised) for one in compared), len(compared)),
        "similarity": _spread([one.similarity for one in compared], p5=0.05, p25=0.25, p50=0.5),
        "length_ratio": _spread([one.length_ratio for one in compared], p5=0.05, p50=0.5, p95=0.95),
        "latency_s": {
            "answer": _spread([one.latency_s for one in compared], p50=0.5, p95=0.95),
            "shadow": _spread([one.shadow_latency_s for one in compared], p50=0.5, p95=0.95),
        },
        "mean_logprob": {
            "answer": _mean(one.mean_logprob for one in compared),
            "shadow": _mean(one.shadow_mean_logprob for one in compared),
        },
        "finish_reasons": {
            "answer": dict(Counter(one.finish_reason or "none" for one in compared)),
            "shadow": dict(Counter(one.shadow_finish_reason or "none" for one in compared)),
        },
        "signals": {name: sum(getattr(one, name) for one in compared) for name in ("empty", "repetitive", "refusal")},
        "worst": [
            {"request_id": one.request_id, "at": one.at, "outcome": one.outcome, "similarity": one.similarity}
            for one in sorted(sorted(diffs, key=_time, reverse=True), key=_likeness)[:WORST]
            if one.outcome != "ok" or not one.exact
        ],
    }


def _newest(diffs: Iterable[Diff]) -> str:
    return max(map(_time, diffs))


def _time(one: Diff) -> str:
    return one.at


def _likeness(one: Diff) -> float:
    """What has no answer is less like it than any answer."""
    return -1.0 if one.similarity is None else one.similarity


def _rate(count: int, of: int) -> dict[str, Any]:
    from graftwork.traffic.gates.confidence.rates import rate  # it needs scipy

    low, high = rate(count, of, ALPHA) if of else (0.0, 1.0)
    return {"count": count, "of": of, "rate": count / of if of else None, "low": float(low), "high": float(high)}


def _spread(values: Iterable[float | None], **quantiles: float) -> dict[str, float | None]:
    known = [value for value in values if value is not None]
    return {"mean": fmean(known) if known else None, **{name: quantile(known, p) for name, p in quantiles.items()}}


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
