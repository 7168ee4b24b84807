"""Comparison: versions side by side, each against the first: numbers, configuration, size; pure but for `scores_of`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import isfinite
from typing import Any

from graftwork.errors import InvalidRequest
from graftwork.registry.evaluations.examples import Scores
from graftwork.registry.evaluations.measured import Measured, change, direction, measured
from graftwork.registry.evaluations.paired import CONFIDENCE, Paired, holm, paired_test
from graftwork.registry.evaluations.rows import Evaluation
from graftwork.registry.versions import Version

Json = dict[str, Any]
#: Each is up to a second's work on the largest files.
MAX_TESTS = 32
ALPHA = 1 - CONFIDENCE
_ABSENT = object()


@dataclass(frozen=True)
class Side:
    """One of the versions: with what its adapter's config says, and what was measured of it last."""

    version: Version
    config: Mapping[str, Any]
    evaluations: Sequence[Evaluation]


def compare(sides: Sequence[Side], metrics: Sequence[str], scores_of: Callable[[str], Scores] | None) -> Json:
    """The first side beside each other one.

    Numbers are compared where all of family, name, split, source, data set (or load) and metric are the same. Where two
    have results by example with ids in common, those are tested, and all p-values are corrected together.

    Args:
        metrics: names of those to compare; all when empty.
        scores_of: reads the results by example of a digest; None for no tests.

    Raises:
        InvalidRequest: it would be more than `MAX_TESTS` tests.
    """
    rows = [_row(values) for values in _joined(sides, metrics)]
    pairs = [(row, place) for place in range(1, len(sides)) for row in rows if _testable(row, place)]
    tests = _tested(pairs, lru_cache(2)(scores_of)) if scores_of is not None else []
    return {
        "baseline": sides[0].version.label,
        "versions": [_version(side.version) for side in sides],
        "metrics": [row.to_json() for row in rows],
        "differences": _differences(sides),
        "correction": {"method": "Holm", "tests": len(tests), "alpha": round(ALPHA, 10)} if tests else None,
    }


@dataclass
class _Row:
    """One metric: of each side its value, and of each but the first what changed."""

    values: list[Measured | None]
    deltas: list[Json | None]
    notes: list[str]

    @property
    def known(self) -> list[Measured]:
        return [one for one in self.values if one is not None]

    def to_json(self) -> Json:
        first = self.known[0]
        return {
            **first.subject.to_json(),
            "unit": first.unit,
            "higher_is_better": _agreed(self.known),
            "values": [one.to_json() if one is not None else None for one in self.values],
            "deltas": self.deltas,
            "notes": self.notes,
        }


def _joined(sides: Sequence[Side], metrics: Sequence[str]) -> Iterator[list[Measured | None]]:
    """Of each thing that was measured of any side, the value of every side, in a steady order."""
    found: dict[tuple[str, str], list[Measured | None]] = {}
    for place, side in enumerate(sides):
        for evaluation in side.evaluations:
            for one in measured(evaluation):
                if not metrics or one.subject.metric in metrics:
                    found.setdefault(one.key, [None] * len(sides))[place] = one
    yield from sorted(found.values(), key=_order)


def _order(values: list[Measured | None]) -> tuple[str, ...]:
    one = next(one for one in values if one is not None)
    subject = one.subject
    return subject.family, subject.name, subject.split or "", subject.metric, subject.source, one.evaluation.comparable


def _row(values: list[Measured | None]) -> _Row:
    first, *others = values
    known = [one for one in values if one is not None]
    better = _agreed(known)
    deltas = [_delta(first, other, better) for other in others]
    return _Row(values, deltas, list(_notes(known)))


def _delta(first: Measured | None, other: Measured | None, higher_is_better: bool | None) -> Json | None:
    if first is None or other is None or first.unit != other.unit:
        return None
    delta = change(first.value, other.value)
    relative = delta / abs(first.value) if delta is not None and first.value else None
    return {
        "delta": delta,
        "relative": relative if relative is not None and isfinite(relative) else None,
        "direction": direction(first.value, other.value, higher_is_better),
        "paired": None,
    }


def _agreed(known: Sequence[Measured]) -> bool | None:
    """Whether higher is better, where nobody says otherwise."""
    said = {one.higher_is_better for one in known if one.higher_is_better is not None}
    return said.pop() if len(said) == 1 else None


def _notes(known: Sequence[Measured]) -> Iterator[str]:
    """What makes the numbers of a row less comparable than they look."""
    if len({one.higher_is_better for one in known if one.higher_is_better is not None}) > 1:
        yield "they do not agree on whether higher is better"
    if len({one.unit for one in known}) > 1:
        yield "units differ: " + ", ".join(sorted(str(one.unit) for one in known))
    bodies = [one.evaluation.body for one in known]
    for field in ("tool", "engine", "window"):
        if len({str(body.get(field)) for body in bodies}) > 1:
            yield f"{field} differs"
    flat = [dict(_flat("", body.get("conditions", {}))) for body in bodies]
    for key in sorted({key for one in flat for key in one}):
        if len({str(one.get(key, "unset")) for one in flat}) > 1:
            yield f"condition {key} differs"


def _testable(row: _Row, place: int) -> bool:
    pair = (row.values[0], row.values[place])
    both = all(one is not None and one.evaluation.body.get("examples") for one in pair)
    return both and row.deltas[place - 1] is not None


def _tested(pairs: Sequence[tuple[_Row, int]], scores_of: Callable[[str], Scores]) -> list[Paired]:
    if len(pairs) > MAX_TESTS:
        raise InvalidRequest(
            f"This would be {len(pairs)} paired tests, and {MAX_TESTS} are done at once: say which metrics to compare.",
            field="metric",
        )
    done: list[tuple[Json, Paired]] = []
    for row, place in pairs:
        first, other, delta = row.values[0], row.values[place], row.deltas[place - 1]
        assert first is not None and other is not None and delta is not None, "they are testable"
        files = [scores_of(one.evaluation.body["examples"]["digest"]) for one in (first, other)]
        before, after = (scores.get(first.subject.metric, {}) for scores in files)
        ids = sorted(before.keys() & after.keys())
        if len(ids) < 2:
            row.notes.append(f"{other.evaluation.version} has {len(ids)} examples in common with the first: no test")
            continue
        result = paired_test([before[one] for one in ids], [after[one] for one in ids])
        delta["paired"] = {**asdict(result), "unmatched": len(before) + len(after) - 2 * len(ids)}
        done.append((delta, result))
    for (delta, _), p in zip(done, holm([result.p for _, result in done]), strict=True):
        delta["paired"] |= {"p_corrected": p, "significant": p < ALPHA}
    return [result for _, result in done]


def _version(version: Version) -> Json:
    return {
        **{name: getattr(version, name) for name in ("adapter", "digest", "stage", "kind", "rank", "base", "bytes")},
        "reference": version.label,
        "version": version.semver,
        "files_bytes": version.manifest.bytes,
        "created_at": version.created_at,
    }


def _differences(sides: Sequence[Side]) -> list[Json]:
    """What of base, kind, rank, size, config and metadata is not the same of all."""
    flat = [dict(_facts(side)) for side in sides]
    fields = sorted({field for one in flat for field in one}, key=lambda field: _GROUPS.index(field.partition(".")[0]))
    told = ([one.get(field, _ABSENT) for one in flat] for field in fields)
    return [
        {"field": field, "values": [None if value is _ABSENT else value for value in values]}
        for field, values in zip(fields, told, strict=True)
        if any(value != values[0] for value in values[1:])
    ]


_GROUPS = ("base", "base_digest", "kind", "rank", "bytes", "config", "metadata")


def _facts(side: Side) -> Iterator[tuple[str, Any]]:
    for name in _GROUPS[:5]:
        yield name, getattr(side.version, name)
    yield from _flat("config.", side.config)
    yield from _flat("metadata.", side.version.metadata or {})


def _flat(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value under its path; lists of texts sorted, since PEFT writes sets in any order."""
    for key in sorted(value):
        item, path = value[key], f"{prefix}{key}"
        if isinstance(item, Mapping) and item:
            yield from _flat(f"{path}.", item)
        elif isinstance(item, list | tuple):
            yield path, sorted(item) if all(isinstance(one, str) for one in item) else _plain(item)
        else:
            yield path, _plain(item)


def _plain(value: Any) -> Any:
    """A config's value as JSON has it; files of strangers hold NaN and infinities, too."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return str(value) if isinstance(value, float) and not isfinite(value) else value
