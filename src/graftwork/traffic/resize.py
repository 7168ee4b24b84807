"""resize: new shares for arms that have slices; keys move between an arm and the stable one and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from graftwork.traffic.split import Slice

#: Slices end at whole parts of [0, 1), so that what is taken and given back is exactly the same.
PARTS: Final = 1_000_000
_Span = tuple[int, int]  # its first part, and the first after it


def resize(slices: Sequence[Slice], shares: Mapping[str, float], *, stable: str) -> tuple[Slice, ...]:
    """The slices after each arm of `shares` has its share, 0 to 1, and every other arm but `stable` has none.

    An arm that shrinks gives the highest of its points back to `stable`; one that grows takes the lowest that `stable`
    had. So a key moves stable → arm where the arm grew, and arm → stable where it shrank, however many arms there are
    and in whatever order they are named; from one arm to another only where `stable` had too few.

    Args:
        slices: cover [0, 1), as `resize` made them.
        shares: of arms other than `stable`, at most 1 together.
    """
    held = _spans(slices)
    wanted = _whole(shares)
    free, given = held.pop(stable, []), list[_Span]()
    for arm in sorted(held):
        held[arm], rest = _cut(held[arm], wanted.get(arm, 0))
        given += rest
    for arm, parts in wanted.items():
        taken, free = _cut(free, parts - _length(held.get(arm, [])))
        more, given = _cut(given, parts - _length([*held.get(arm, []), *taken]))
        held[arm] = [*held.get(arm, []), *taken, *more]
    held[stable] = [*free, *given]
    named = [(span, arm) for arm, spans in held.items() for span in _joined(spans)]
    return tuple(Slice(arm, start / PARTS, end / PARTS) for (start, end), arm in sorted(named))


def share_of(slices: Iterable[Slice], arm: str) -> float:
    """What part of all keys an arm has, 0 to 1."""
    return sum(round(one.end * PARTS) - round(one.start * PARTS) for one in slices if one.arm == arm) / PARTS


def _whole(shares: Mapping[str, float]) -> dict[str, int]:
    """Shares in parts, rounded where each ends when they are laid in a row: so all of 1 is all parts."""
    names = sorted(shares)
    ends = [round(math.fsum(shares[name] for name in names[: count + 1]) * PARTS) for count in range(len(names))]
    assert not ends or ends[-1] <= PARTS, "shares are at most 1 together"
    return {name: end - before for name, before, end in zip(names, [0, *ends], ends, strict=False)}


def _spans(slices: Iterable[Slice]) -> dict[str, list[_Span]]:
    found: dict[str, list[_Span]] = {}
    for one in slices:
        found.setdefault(one.arm, []).append((round(one.start * PARTS), round(one.end * PARTS)))
    return found


def _cut(spans: Sequence[_Span], parts: int) -> tuple[list[_Span], list[_Span]]:
    """The lowest `parts` of the spans, and the rest."""
    low: list[_Span] = []
    high: list[_Span] = []
    for start, end in sorted(spans):
        middle = min(end, start + max(parts, 0))
        parts -= middle - start
        low += [(start, middle)] if middle > start else []
        high += [(middle, end)] if end > middle else []
    return low, high


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    found: list[_Span] = []
    for start, end in sorted(spans):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _length(spans: Iterable[_Span]) -> int:
    return sum(end - start for start, end in spans)
