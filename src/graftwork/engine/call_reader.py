"""CallReader: finds the calls of tools in an answer's text, as it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from graftwork.engine.tool_formats import ToolFormat

_HEAD = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)')


@dataclass(frozen=True)
class CallPiece:
    """What a piece of text adds: to the content (`call` None), or to the arguments of a call, by its place.

    `name` and `id` are in the first piece of a call.
    """

    text: str
    call: int | None = None
    name: str | None = None
    id: str | None = None


class CallReader:
    """For one answer. A call's name is told as soon as it is known, and its arguments as they come.

    What looks like a call and is none, or is of an unknown function, is content, as it stands.

    Args:
        names: of the functions that may be called.
        several: whether more than one call is told of.
    """

    def __init__(self, form: ToolFormat, names: Collection[str], *, several: bool) -> None:
        self._format, self._names, self._several = form, names, several
        self._state: Literal["text", "call", "arguments", "rest", "after", "plain"] = "text"
        self._held = ""
        self._opening = ""  # what a call that turns out to be none began with
        self._object = _Object()
        self._seen = 0  # of `_held`, by `_object`
        self.calls = 0

    def push(self, text: str, *, end: bool) -> list[CallPiece]:
        """What is certain now; with `end` everything."""
        self._held += text
        pieces: list[CallPiece] = []
        while self._step(pieces):
            pass
        if end:
            self._finish(pieces)
        return pieces

    def _step(self, pieces: list[CallPiece]) -> bool:
        """Whether there may be more to do with the text that is there."""
        match self._state:
            case "text" | "after":
                return self._look_for_call(pieces)
            case "call":
                return self._read_head(pieces)
            case "arguments":
                return self._read_arguments(pieces)
            case "rest":
                return self._read_rest()
            case "plain":
                self._content(pieces, self._held)
                self._held = ""
                return False

    def _look_for_call(self, pieces: list[CallPiece]) -> bool:
        pattern = self._format.following if self._state == "after" else self._format.first
        found = (pattern.match if self._state == "after" else pattern.search)(self._held, partial=True)
        if found is None and self._state == "after":
            if self._format.after.fullmatch(self._held, partial=True):
                return False
            self._held = self._behind_last(self._held)
            self._state = "text" if self._format.mark else "plain"
            return True
        if found is None and not self._format.mark:
            self._state = "plain"
            return True
        begin = len(self._held) if found is None else found.start()
        self._content(pieces, self._held[:begin])
        self._held = self._held[begin:]
        if found is None or found.partial:
            return False
        at = found.end() - begin - 1
        opening, self._held = self._held[:at], self._held[at:]
        self._opening = self._behind_last(opening) if self._state == "after" else opening
        self._object, self._seen, self._state = _Object(), 0, "call"
        return True

    def _read_head(self, pieces: list[CallPiece]) -> bool:
        head = _HEAD.match(self._held)
        name = _text(head[1]) if head is not None else None
        if head is not None and name is not None and name in self._names:
            self._object.end(self._held[self._seen : head.end()])
            self._held, self._seen, self._state = self._held[head.end() :], 0, "arguments"
            self._call(pieces, name, "")
            return True
        end = self._object.end(self._held[self._seen :])
        if end is None:
            self._seen = len(self._held)
            return False
        whole, rest = self._held[: self._seen + end], self._held[self._seen + end :]
        call = _call_of(whole)
        if call is None or call[0] not in self._names:  # keys in another order are a call as well
            self._content(pieces, self._opening + whole)
            self._held, self._state = rest, "text" if self._format.mark else "plain"
            return True
        self._call(pieces, *call)
        self._held, self._state = rest, "after"
        return True

    def _read_arguments(self, pieces: list[CallPiece]) -> bool:
        end = self._object.end(self._held, depth=1)
        text = self._held if end is None else self._held[:end]
        self._held = self._held[len(text) :]
        if text and self._told:
            pieces.append(CallPiece(text, self.calls - 1))
        if end is not None:
            self._state = "rest"
        return end is not None

    def _read_rest(self) -> bool:
        """To the end of the object that the call is."""
        end = self._object.end(self._held)
        self._held = "" if end is None else self._held[end:]
        if end is not None:
            self._state = "after"
        return end is not None

    def _finish(self, pieces: list[CallPiece]) -> None:
        if self._state == "call":
            self._held = self._opening + self._held
        if self._state == "after":
            closed = self._format.after.fullmatch(self._held, partial=True)
            self._held = "" if closed else self._behind_last(self._held)
        if self._state != "rest":
            self._content(pieces, self._held)
        self._held = ""

    def _behind_last(self, text: str) -> str:
        """Without what closes the call before."""
        closed = self._format.after.match(text)
        return text if closed is None else text[closed.end() :]

    @property
    def _told(self) -> bool:
        return self._several or self.calls == 1

    def _call(self, pieces: list[CallPiece], name: str, arguments: str) -> None:
        self.calls += 1
        if self._told:
            pieces.append(CallPiece(arguments, self.calls - 1, name, self._format.new_id()))

    def _content(self, pieces: list[CallPiece], text: str) -> None:
        if text:
            pieces.append(CallPiece(text))


class _Object:
    """Finds the end of a JSON object in pieces of text."""

    def __init__(self) -> None:
        self._depth, self._quoted, self._escaped = 0, False, False

    def end(self, text: str, depth: int = 0) -> int | None:
        """Where in `text` a bracket closes so that `depth` are open; None: not in it. Remembers what it has read."""
        for place, letter in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif letter == "\\":
                self._escaped = self._quoted
            elif letter == '"':
                self._quoted = not self._quoted
            elif not self._quoted and letter in "{[":
                self._depth += 1
            elif not self._quoted and letter in "}]":
                self._depth -= 1
                if self._depth == depth:
                    return place + 1
        return None


def _text(quoted: str) -> str | None:
    try:
        return str(json.loads(quoted))
    except ValueError:
        return None


def _call_of(text: str) -> tuple[str, str] | None:
    """Name and arguments, as text, of an object that is a call."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = found.get("name")
    arguments = found.get("arguments", found.get("parameters", {}))
    if not isinstance(name, str):
        return None
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return name, text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
