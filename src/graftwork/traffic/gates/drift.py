"""The gate of drift: how far what a version is asked and answers is from a stored baseline, or from stable; pure.

Values are counted into bins; every bin's share has its confidence sequence, at alpha over the number of things that
could be bins, so that all hold together; `distances.py` makes the bounds of the distance of them. The baseline is
taken as the truth that the distance is measured from; stable is a sample as the candidate is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from graftwork.protocol.condition import Subject
from graftwork.protocol.evaluation_parts import Categories, Histogram
from graftwork.traffic.gates.confidence.rates import rate
from graftwork.traffic.gates.distances import Array, bounded, distance
from graftwork.traffic.gates.estimate import Estimate, Measured, enough, finite
from graftwork.traffic.gates.evidence import Arm, Evidence, Lacking
from graftwork.traffic.gates.live import MIN_SAMPLES

if TYPE_CHECKING:
    from graftwork.protocol.analysis import DriftPart

_Model = Histogram | Categories

#: Neighbouring bins are put together until each has one share in so many of what is compared with.
BINS = 10
#: Of the commonest tokens; the others are one.
TOKENS = 20
#: Where stable is compared with, bins lie between these edges, whatever the data are.
EDGES: Final[Mapping[str, Sequence[float]]] = {
    "prompt_tokens": [2.0**power for power in range(1, 16)],
    "answer_tokens": [2.0**power for power in range(16)],
    "mean_logprob": [-6, -4, -3, -2.5, -2, -1.5, -1.25, -1, -0.75, -0.5, -0.35, -0.25, -0.15, -0.1, -0.05],
}


@dataclass(frozen=True)
class Counts:
    """How often each bin came; `n` of what is independent: answers, however many tokens they have."""

    bins: Array
    n: float

    @property
    def scaled(self) -> Array:
        """As though each answer were one draw, which is what many alike tokens of one answer come to at worst."""
        total = self.bins.sum()
        found: Array = self.bins * (min(self.n, total) / total)
        return found


def drift(part: DriftPart, wanted: int | None, _subject: Subject, evidence: Evidence) -> Measured:
    """The distance of the candidate's distribution; raises Lacking where there is nothing to compare."""
    known = part.against == "baseline"
    models = [evidence.baseline] if known else [evidence.stable.distributions, evidence.candidate.distributions]
    model = next((one for one in (getattr(given, part.of, None) for given in models) if one is not None), None)
    if not known:
        other = _counts(part.of, evidence.stable, model)
    elif model is not None:
        other = Counts(_of(model, model), float(_total(model)))
    else:
        raise Lacking(f"no baseline has {part.of}")
    mine = _counts(part.of, evidence.candidate, model)
    enough("answers of the candidate", int(mine.n), wanted or MIN_SAMPLES)
    enough(f"counts of the {part.against}", int(other.n), wanted or MIN_SAMPLES)
    starts = _starts(other.bins) if part.of != "tokens" else list(range(len(other.bins)))
    shares = [np.add.reduceat(one.scaled, starts) for one in (mine, other)]
    # Which bins are put together depends on stable's data, and so any neighbours could be.
    possible = len(starts) if known else len(mine.bins) * (len(mine.bins) + 1) // 2
    return lambda alpha: _estimate(part, shares[0], shares[1], alpha / possible, (int(mine.n), int(other.n)))


def _estimate(part: DriftPart, mine: Array, other: Array, alpha: float, counted: tuple[int, int]) -> Estimate:
    totals = mine.sum(), other.sum()
    if part.distance == "ks":
        mine, other = mine.cumsum()[:-1], other.cumsum()[:-1]
    exact = other / totals[1]
    if part.against == "baseline":
        box, reference = rate(mine, totals[0], alpha), (exact, exact)
    else:
        box, reference = rate(mine, totals[0], alpha / 2), rate(other, totals[1], alpha / 2)
    value = distance(part.distance, mine / totals[0], exact)
    return Estimate(
        value=value,
        bounds=bounded(part.distance, box, reference),
        method=f"confidence sequences of {len(mine)} {'edges' if part.distance == 'ks' else 'bins'}",
        n=counted[0],
        result=value,
        n_stable=counted[1],
    )


def _counts(of: str, arm: Arm, model: _Model | None) -> Counts:
    """Of an arm: as it was counted for it, else of its answers; over the bins of `model`."""
    given: _Model | None = getattr(arm.distributions, of, None)
    if given is not None:
        answers = sum(one.outcome == "ok" for one in arm.observations)
        return Counts(_of(given, model or given), float(answers if of in ("tokens", "logprob") else _total(given)))
    if of in ("tokens", "logprob"):
        raise Lacking(f"nobody has counted {of} of the answers")
    values = finite(f"values of {of}", _values(of, arm))
    return Counts(_binned(values, getattr(model, "edges", EDGES[of])), float(len(values)))


def _values(of: str, arm: Arm) -> list[float]:
    good = [one for one in arm.observations if one.outcome == "ok"]
    if of == "prompt_tokens":
        return [float(one.prompt_tokens) for one in arm.observations]
    if of == "answer_tokens":
        return [float(one.output_tokens) for one in good]
    return [one.mean_logprob for one in good if one.mean_logprob is not None]


def _binned(values: Sequence[float], edges: Sequence[float]) -> Array:
    """Below the first edge, between edges (edges[i] <= x < edges[i + 1]), from the last edge on."""
    places = np.searchsorted(np.asarray(edges), np.asarray(values, np.float64), side="right")
    return np.bincount(places, minlength=len(edges) + 1).astype(np.float64)


def _of(found: _Model, model: _Model) -> Array:
    """Over the bins of `model`: between its edges, or of its commonest tokens and of all others together."""
    if isinstance(found, Categories):
        assert isinstance(model, Categories), "both are of tokens"
        common = sorted(model.counts, key=lambda token: (-model.counts[token], token))[:TOKENS]
        counts = [found.counts.get(token, 0) for token in common]
        return np.array([*counts, _total(found) - sum(counts)], np.float64)
    if found.edges != getattr(model, "edges", None):
        raise Lacking("it was counted between other edges")
    return np.array([found.below, *found.counts, found.above], np.float64)


def _total(found: _Model) -> int:
    if isinstance(found, Categories):
        return sum(found.counts.values()) + found.other
    return found.below + sum(found.counts) + found.above


def _starts(reference: Array) -> list[int]:
    """Where groups of neighbouring bins begin: each has a tenth of the reference, or lies beside bins that have.

    So what lies where the reference has nothing stays apart from what it has.
    """
    starts, filled, wanted = [0], 0.0, reference.sum() / BINS
    for place, count in enumerate(reference):
        if place and (filled >= wanted or count >= wanted):
            starts.append(place)
            filled = 0.0
        filled += float(count)
    return starts
