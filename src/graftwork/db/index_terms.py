"""What the search tables hold of a version, as values: facts, a key that orders versions, and words.

It lies here because pushes write it and a migration writes it for what was pushed before. All of it can be made again
from the versions, so a later Graftwork may change what it makes.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: The fact that orders versions as semver.org does; no metadata can be called so, for its keys begin with `meta.`.
VERSION: Final = "version"
MAX_FACTS = 256  # of one version
MAX_KEY = 128  # characters
MAX_TEXT = 512  # characters; longer texts are no facts
MAX_WORDS = 20_000  # of one text; what comes after them is not found
MAX_WORD = 64  # characters
_DEPTH = 4

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Fact:
    """One thing that is so of a version; a key may have several."""

    key: str
    text: str
    number: float | None = None  #: where the text is one, as those that `--meta labels.rank=8` brings are


def facts_of(semver: str, metadata: Mapping[str, Any], config: Mapping[str, Any]) -> list[Fact]:
    """Everything of a version that filters can ask for and that is no column: `meta.…`, `config.…` and `version`.

    Objects become dotted keys, lists several facts of one key; what is null, too long or nested deeper than four
    is left out, and so is what comes after the first 256. What has the fewest facts comes first, so that a long list
    of modules pushes out nothing but its own end.
    """
    found = {(VERSION, version_key(semver)): Fact(VERSION, version_key(semver))}
    flat = [*_flat("meta", metadata, _DEPTH), *_flat("config", config, _DEPTH)]
    numbers = Counter(map(_group, flat))
    for fact in sorted(flat, key=lambda one: numbers[_group(one)]):
        if len(found) == MAX_FACTS:
            break
        if len(fact.key) <= MAX_KEY and len(fact.text) <= MAX_TEXT and _is_stored(fact.key + fact.text):
            found[fact.key, fact.text] = fact
    return list(found.values())


def _group(fact: Fact) -> str:
    """The field of metadata or configuration that a fact is of."""
    return ".".join(fact.key.split(".", 2)[:2])


def number_in(text: str) -> float | None:
    """The finite number that a text is, if it is one."""
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    return number if math.isfinite(number) else None


def version_key(semver: str) -> str:
    """A text whose order, byte by byte, is the order of semantic versions; build metadata has no part in it.

    Numbers are written behind their length. Each part of a pre-release begins with `-`, which comes before the `~` of
    a release; the end of a pre-release comes before anything that goes on.
    """
    core, _, pre = semver.partition("+")[0].partition("-")
    numbers = ".".join(map(_counted, core.split(".")))
    if not pre:
        return f"{numbers}~"
    return f"{numbers}-" + "".join(f"0{_counted(part)} " if part.isdigit() else f"1{part} " for part in pre.split("."))


def words_of(*texts: str) -> str:
    """The different words of texts, between blanks: without case, accents and everything but letters and digits."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _WORD.finditer(folded(text)):
            if len(found) == MAX_WORDS:
                break
            found[word[0][:MAX_WORD]] = None
    return " ".join(found)


def folded(text: str) -> str:
    """A text without the differences that words do not make: case, accents, forms of one letter."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(letter for letter in plain if not unicodedata.combining(letter))


def _flat(key: str, value: Any, depth: int) -> Iterator[Fact]:
    match value:
        case Mapping() if depth:
            for name, item in value.items():
                yield from _flat(f"{key}.{name}", item, depth - 1)
        case list() | tuple() if depth:
            for item in value:
                yield from _flat(key, item, depth - 1)
        case bool():
            yield Fact(key, str(value).lower())
        case int() | float():
            text = repr(value)[:MAX_KEY]
            yield Fact(key, text, number_in(text))
        case str():
            yield Fact(key, value, number_in(value))


def _is_stored(text: str) -> bool:
    """Whether each database gives a text back as it was: no zero byte, no half of a surrogate pair."""
    return not re.search("[\0\ud800-\udfff]", text)


def _counted(digits: str) -> str:
    return f"{len(digits):02d}{digits}"
