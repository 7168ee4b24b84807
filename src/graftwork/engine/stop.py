"""StopMatcher: lets text through until a stop string begins, however the text is cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """For one answer. Of several stop strings the one that begins first ends it; of those, the shortest.

    NOTE: text is held back only while it may still become a stop string: `_held` starts where the earliest of
    these candidates does. A stop string found behind the start of a candidate waits until that is decided.

    Example:
        >>> matcher = StopMatcher(("END",))
        >>> matcher.push("the E"), matcher.push("ND of it")
        (('the ', None), ('', 'END'))
    """

    def __init__(self, stops: Sequence[str]) -> None:
        assert all(stops), "an empty stop string would stop everything"
        self._stops = tuple(stops)
        self._held = ""
        #: The stop string that ended the answer, or None.
        self.stopped: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """Text that may be shown now, and `stopped`: the stop string itself is never shown."""
        if not self._stops:
            return text, None
        self._held += text
        found = self._found()
        candidate = min(_unfinished(self._held, stop) for stop in self._stops)
        if found is not None and found[0] <= candidate:
            return self._end(found), self.stopped
        shown, self._held = self._held[:candidate], self._held[candidate:]
        return shown, None

    def flush(self) -> str:
        """The held text, when generation ends for another reason, up to a stop string that waited in it."""
        found = self._found()
        if found is not None:
            return self._end(found)
        shown, self._held = self._held, ""
        return shown

    def _found(self) -> tuple[int, int, str] | None:
        """Start, length and text of the winner among the stop strings that are complete."""
        places = ((self._held.find(stop), len(stop), stop) for stop in self._stops)
        return min((place for place in places if place[0] >= 0), default=None)

    def _end(self, found: tuple[int, int, str]) -> str:
        start, _, self.stopped = found
        shown, self._held = self._held[:start], ""
        return shown


def _unfinished(text: str, stop: str) -> int:
    """Where the longest end of `text` that begins `stop` but is not all of it starts; else its length."""
    for start in range(max(0, len(text) - len(stop) + 1), len(text)):
        if text[start] == stop[0] and stop.startswith(text[start:]):
            return start
    return len(text)
