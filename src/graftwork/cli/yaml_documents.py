"""read_text: YAML text as plain values, each with the line on which it stands; several documents, and no surprises.

Scalars are those of YAML 1.2: `off` is a word, `12:30` a text and a date, too. Anchors and merges are read; what they
would blow up beyond a limit is refused, as are keys that come twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

#: Values in one text, those of anchors as often as they are named; and how deep they may lie.
MAX_NODES: Final = 100_000
MAX_DEPTH: Final = 100
#: Of a whole number, with its sign.
MAX_DIGITS: Final = 32
_NEVER: Final = re.compile("[\0\ud800-\udfff]")
_PLAIN: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_PLAIN}merge"
Path = tuple[str | int, ...]


class Fault(ValueError):
    """What is wrong with a text, and on which of its lines."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Located:
    """The value of one document, and where each of its parts begins."""

    value: Any
    line: int
    lines: Mapping[Path, int] = field(repr=False)

    def line_of(self, path: Path) -> int:
        """Of the part at `path`, or of what is around it as far as there is any."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, self.line)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Composes nodes; what their plain words mean is YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (PyYAML's own)


#: What plain words mean, and how they may begin; "\0" is nothing at all.
CORE: Final = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("merge", r"<<", "<"),
)


def know(words: type[yaml.SafeDumper | _Loader]) -> None:
    """Teach a reader or a writer of YAML what plain words mean."""
    for tag, pattern, first in CORE:
        starts = ["" if one == "\0" else one for one in first]
        words.add_implicit_resolver(f"{_PLAIN}{tag}", re.compile(f"^(?:{pattern})$"), starts)


know(_Loader)


def read_text(raw: bytes) -> Iterator[Located]:
    """The documents of a text that are not empty, in order.

    Raises:
        Fault: it is not UTF-8, not YAML, or not what plain JSON could say.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Fault(raw[: error.start].count(b"\n") + 1, f"this is not UTF-8 text: {error.reason}") from error
    loader, left = _Loader(text), _Budget()
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                lines: dict[Path, int] = {}
                value = _Reader(left, lines).value(node, ())
                if value is not None:
                    yield Located(value, _line(node), lines)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise Fault(line, f"the character U+{ord_of(error.character):04X} may not stand here") from error
    except yaml.YAMLError as error:
        from graftwork.registry.yaml_fault import yaml_fault

        mark = getattr(error, "problem_mark", None)
        told = yaml_fault(error)
        raise Fault(mark.line + 1 if mark is not None else 1, re.sub(r"^line \d+: ", "", told)) from error
    except RecursionError as error:
        raise Fault(1, "lists and mappings lie too deep in one another") from error
    finally:
        loader.dispose()


def ord_of(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[0])


def check_text(text: str, line: int) -> None:
    """Raises Fault for a character that no server takes, or no UTF-8 says."""
    if (found := _NEVER.search(text)) is not None:
        raise Fault(line, f"the character U+{ord(found[0]):04X} may not stand here")


class _Budget:
    """How many values may still come."""

    def __init__(self) -> None:
        self._left = MAX_NODES

    def spend(self, node: Node) -> None:
        self._left -= 1
        if self._left < 0:
            raise Fault(_line(node), f"there are more than {MAX_NODES} values here, those of anchors each time counted")


class _Reader:
    """Of one document."""

    def __init__(self, left: _Budget, lines: dict[Path, int]) -> None:
        self._left, self._lines = left, lines

    def value(self, node: Node, path: Path) -> Any:
        self._left.spend(node)
        self._lines.setdefault(path, _line(node))
        if len(path) > MAX_DEPTH:
            raise Fault(_line(node), f"lists and mappings lie more than {MAX_DEPTH} deep in one another")
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(one, (*path, at)) for at, one in enumerate(node.value)]
        assert isinstance(node, ScalarNode), "there are three kinds of nodes"
        check_text(str(node.value), _line(node))
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: list[Node] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged += value.value if isinstance(value, SequenceNode) else [value]
                continue
            name = _key(key)
            if name in own:
                raise Fault(_line(key), f"the key {name[:80]!a} comes twice in one mapping")
            self._lines[(*path, name)] = _line(key)
            own[name] = self.value(value, (*path, name))
        for one in merged:
            if not isinstance(one, MappingNode):
                raise Fault(_line(one), "<< takes a mapping, or a list of them")
            own = {**self.value(one, path), **own}
        return own


def _key(node: Node) -> str:
    if not isinstance(node, ScalarNode):
        raise Fault(_line(node), "a key must be a text; one that begins with a brace needs quotes, and so does a value")
    check_text(str(node.value), _line(node))
    return str(node.value)


def _scalar(node: ScalarNode) -> Any:
    text = str(node.value)
    match node.tag.removeprefix(_PLAIN):
        case "str":
            return text
        case "null":
            return None
        case "bool" if text.lower() in ("true", "false"):
            return text.lower() == "true"
        case "int" if len(text) <= MAX_DIGITS and re.fullmatch(r"[-+]?[0-9]+", text):
            return int(text)
        case "float":
            try:
                if math.isfinite(number := float(text)):
                    return number
            except ValueError:
                pass
    raise Fault(_line(node), f"{text[:40]!a} is no value of the type {node.tag.removeprefix(_PLAIN)[:40]} here")


def _line(node: Node) -> int:
    return int(node.start_mark.line) + 1
