"""Grammar: which texts an answer may be, as a request says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: A JSON schema; a regular expression in Rust's syntax; a JSON list of texts; a grammar in Lark's syntax, or in GBNF,
#: which is told by its `::=`.
GrammarKind = Literal["json", "regex", "choice", "grammar"]

MAX_GRAMMAR_BYTES = 1 << 18


@dataclass(frozen=True)
class Grammar:
    """The whole answer is in this language. `field` is where the request says so, for errors."""

    kind: GrammarKind
    source: str
    field: str = "structured_outputs"

    @property
    def encoded(self) -> bytes:
        return self.source.encode(errors="surrogatepass")
