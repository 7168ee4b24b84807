"""signals_of: what the text of an answer says by itself: that it is empty, repetitive, a refusal; pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from graftwork.traffic.gates.refusals import is_refusal

#: Words, or characters where a text has no blanks between them, that are looked at together.
WORDS, CHARACTERS = 4, 8
#: Of them, the share that came before from which a text is repetitive. Refrains, lists, tables and code stay below.
SHARE = 0.5
#: Fewer are too few to tell.
LEAST = 16
#: The end is looked at alone, too: a good answer that ends in a loop.
TAIL = 64
#: A text whose words are longer than this on average does not part them by blanks.
_LONG_WORD = 15
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Signals:
    """Of one answer."""

    empty: bool  #: nothing that can be seen
    repetitive: bool  #: the same words over and over
    refusal: bool  #: it says that it will not


def signals_of(text: str) -> Signals:
    """The signals in an answer's text.

    Repetition is the share of n-grams (of 4 words, or of 8 characters) that came before in the text, as in the filters
    of Gopher (Rae et al. 2021, appendix A1.1), over all of it or over its last 64.
    """
    return Signals(
        empty=not any(_seen(letter) for letter in text),
        repetitive=_repetitive(text),
        refusal=is_refusal(text),
    )


def _seen(letter: str) -> bool:
    return not letter.isspace() and unicodedata.category(letter) not in ("Cc", "Cf")


def _repetitive(text: str) -> bool:
    words: Sequence[str] = _WORD.findall(text.casefold())
    letters = "".join(text.split())
    size = WORDS
    if len(words) * _LONG_WORD < len(letters):
        words, size = letters, CHARACTERS
    grams = [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]
    return any(_share(part) >= SHARE for part in (grams, grams[-TAIL:]) if len(part) >= LEAST)


def _share(grams: Sequence[tuple[str, ...]]) -> float:
    """Of those that came before."""
    return 1 - len(set(grams)) / len(grams)
