"""Week: which of many weekly windows are open at a time, by one search among the minutes where any begins or ends."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from graftwork.errors import Unavailable
from graftwork.protocol.routes import DAYS, Window, minutes_of

_DAY = 24 * 60
_WEEK = 7 * _DAY


class Week:
    """The windows of one time zone. Which hour it is there is the clock's: in an hour that comes twice, both times."""

    def __init__(self, zone: str, windows: Iterable[tuple[Window, int]]) -> None:
        """`windows` come with the bits of what they are of.

        Raises:
            Unavailable: this machine does not know the zone, which another one did when it was written.
        """
        try:
            self._zone = ZoneInfo(zone)
        except (ValueError, OSError, KeyError) as error:
            raise Unavailable(f"This server does not know the time zone {zone}; install its system's zones.") from error
        changes: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for window, bit in windows:
            for begin, end in _spans(window):
                changes[begin].append((bit, 1))
                changes[end].append((bit, -1))
        self._begins, self._open = [0], [0]
        depth: Counter[int] = Counter()
        for minute in sorted(changes):
            mask = self._open[-1]
            for bit, by in changes[minute]:
                depth[bit] += by
            for bit, _ in changes[minute]:
                mask = mask | bit if depth[bit] else mask & ~bit
            self._begins.append(minute)
            self._open.append(mask)

    def open_at(self, moment: datetime) -> int:
        """The bits of all whose windows are open then."""
        return self._open[bisect_right(self._begins, self.minute(moment)) - 1]

    def minute(self, moment: datetime) -> int:
        """Minutes since Monday, 00:00."""
        local = moment.astimezone(self._zone)
        return local.weekday() * _DAY + local.hour * 60 + local.minute


def _spans(window: Window) -> Iterator[tuple[int, int]]:
    """From which minute of the week to which, the last one not included."""
    begin, end = minutes_of(window.begin), minutes_of(window.end)
    length = end - begin if begin < end else end - begin + _DAY
    for day in set(window.days):
        first = DAYS.index(day) * _DAY + begin
        if first + length <= _WEEK:
            yield first, first + length
        else:
            yield first, _WEEK
            yield 0, first + length - _WEEK
