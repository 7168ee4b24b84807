"""Criteria: each asks all matches of a route about one thing at once, and answers with one bit for each match.

So a route of a thousand rules costs a request a handful of look-ups and ANDs of integers, not a thousand tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Protocol

from graftwork.protocol.routes import MAX_SEARCHED, HeaderMatch, Match, compiled
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.locales import lookup, shortened
from graftwork.traffic.routes.week import Week

#: A match and its bit.
Numbered = tuple[Match, int]
#: What is compared as it is.
LITERAL = ("task", "tenant", "user", "key", "session", "region")


class Criterion(Protocol):
    """One thing that matches may ask for."""

    demanding: int  #: the bits of matches that ask for it; it says nothing of the others

    def fitting(self, seen: Circumstances) -> int:
        """The bits of those that get what they ask for."""
        ...

    def why_not(self, match: Match, seen: Circumstances) -> str:
        """What a match that does not get it asks for, and what is there."""
        ...


class Literal:
    """A value that must be one of a list."""

    def __init__(self, field: str, matches: Iterable[Numbered]) -> None:
        self._field, self.demanding = field, 0
        self._table: dict[str, int] = defaultdict(int)
        for match, bit in matches:
            for value in getattr(match, field) or ():
                self._table[value] |= bit
                self.demanding |= bit

    def fitting(self, seen: Circumstances) -> int:
        return self._table.get(getattr(seen, self._field) or "", 0)

    def why_not(self, match: Match, seen: Circumstances) -> str:
        return _other(self._field, getattr(match, self._field), getattr(seen, self._field))


class Locale:
    """The tag that fits the request best, of all that the route names; a match for `de` has `de-ch` too."""

    def __init__(self, matches: Iterable[Numbered]) -> None:
        self.demanding, self._table = 0, defaultdict[str, int](int)
        for match, bit in matches:
            for tag in match.locale or ():
                self._table[tag.lower()] |= bit
                self.demanding |= bit

    def fitting(self, seen: Circumstances) -> int:
        found = lookup(seen.locales, self._table)
        bits = 0
        for tag in shortened(found) if found else ():
            bits |= self._table.get(tag, 0)
        return bits

    def why_not(self, match: Match, seen: Circumstances) -> str:
        return _other("locale", match.locale or [], lookup(seen.locales, self._table))


class Header:
    """One header, by all that matches ask of it."""

    def __init__(self, name: str, asked: Iterable[tuple[HeaderMatch, int]]) -> None:
        self._name, self.demanding, self._present, self._absent = name, 0, 0, 0
        self._exact, self._prefixes = defaultdict[str, int](int), defaultdict[str, int](int)
        regexes = defaultdict[str, int](int)
        for one, bit in asked:
            self.demanding |= bit
            if one.present is not None:
                self._present |= bit * one.present
                self._absent |= bit * (not one.present)
            for value in one.exact or ():
                self._exact[value] |= bit
            if one.prefix is not None:
                self._prefixes[one.prefix] |= bit
            if one.regex is not None:
                regexes[one.regex] |= bit
        self._lengths = sorted({len(prefix) for prefix in self._prefixes})
        self._regexes = [(compiled(pattern), bits) for pattern, bits in regexes.items()]

    def fitting(self, seen: Circumstances) -> int:
        value = seen.headers.get(self._name)
        if value is None:
            return self._absent
        bits = self._present | self._exact.get(value, 0)
        for length in self._lengths:
            bits |= self._prefixes.get(value[:length], 0)
        for regex, of in self._regexes if len(value) <= MAX_SEARCHED else ():
            bits |= of if regex.isinstance_python(value) else 0
        return bits

    def why_not(self, match: Match, seen: Circumstances) -> str:
        one = next(one for one in match.headers if one.name.lower() == self._name)
        asked = one.model_dump(exclude_none=True, exclude={"name"})
        (how, what), value = next(iter(asked.items())), seen.headers.get(self._name)
        what = " or ".join(map(repr, what)) if isinstance(what, list) else what
        return f"header {self._name} is {'not there' if value is None else repr(value[:80])}, not {how} {what}"


class Times:
    """Windows of time, of any of a match's zones."""

    def __init__(self, matches: Iterable[Numbered]) -> None:
        windows = [(window, bit) for match, bit in matches for window in match.times]
        self.demanding = 0
        for _, bit in windows:
            self.demanding |= bit
        zones = sorted({window.zone for window, _ in windows})
        self._weeks = [Week(zone, [one for one in windows if one[0].zone == zone]) for zone in zones]

    def fitting(self, seen: Circumstances) -> int:
        bits = 0
        for week in self._weeks:
            bits |= week.open_at(seen.now)
        return bits

    def why_not(self, match: Match, seen: Circumstances) -> str:
        windows = [f"{one.begin}-{one.end} {','.join(one.days)} {one.zone}" for one in match.times]
        return f"the time is {seen.now.isoformat(timespec='seconds')}, not in {' or '.join(windows)}"


def criteria_of(matches: list[Numbered]) -> Iterator[Criterion]:
    """Those that any of the matches asks for."""
    headers = defaultdict[str, list[tuple[HeaderMatch, int]]](list)
    for match, bit in matches:
        for one in match.headers:
            headers[one.name.lower()].append((one, bit))
    found: list[Criterion] = [Literal(field, matches) for field in LITERAL]
    found += [Locale(matches), *(Header(*named) for named in headers.items()), Times(matches)]
    return (one for one in found if one.demanding)


def _other(what: str, wanted: list[str], value: str | None) -> str:
    return f"{what} is {'not known' if value is None else repr(value[:80])}, not {' or '.join(wanted)}"
