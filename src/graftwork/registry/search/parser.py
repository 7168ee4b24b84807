"""Parser: a filter's text to its tree, by recursive descent; docs/reference/search.md has the grammar.

filter = and, { "or", and } ;            and   = not, { "and", not } ;
not    = "not", not | "(", filter, ")" | term ;
term   = "has", field | field, compare, value | field, [ "not" ], "in", "(", value, { ",", value }, ")" ;
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from graftwork.db.index_terms import number_in
from graftwork.registry.search.filter import And, Field, Filter, Mistake, Not, Operator, Or, Term, Value

MAX_LENGTH = 4096  # characters
MAX_DEPTH = 32  # of parentheses and `not`
MAX_TERMS = 64
MAX_VALUES = 256  # of all terms together

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)|(?P<mark><=|>=|!=|[=<>~(),])|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<word>-?[A-Za-z0-9_][A-Za-z0-9_.:@/+-]*)""",
    re.ASCII | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_KEYWORDS: Final = ("and", "or", "not", "in", "has")
_COMPARE: Final = ("=", "!=", "<", "<=", ">", ">=", "~")
_END: Final = "the end"


@dataclass(frozen=True)
class _Token:
    kind: Literal["mark", "string", "word", "keyword", "end"]
    text: str  #: of a string what is between the quotes
    at: int
    end: int

    @property
    def shown(self) -> str:
        return _END if self.kind == "end" else ascii(self.text[:40])


def parse_filter(text: str) -> Filter | None:
    """The tree of a filter; None where it asks for nothing.

    Raises:
        InvalidRequest: it does not fit the grammar or is larger than the limits; the message shows where.
    """
    if len(text) > MAX_LENGTH:
        raise Mistake(text, MAX_LENGTH, f"a filter has at most {MAX_LENGTH} characters.")
    tokens = list(_tokens(text))
    return None if tokens[0].kind == "end" else _Parser(text, tokens).whole()


def read_field(text: str, at: int, part: str = "") -> Field:
    """`rank` or `metrics.rouge1`, of which the first dot divides the part from its sort."""
    name, dot, rest = text.partition(".")
    return Field(name + dot, rest + part, at)


class _Parser:
    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._place = self._depth = self._terms = self._values = 0

    def whole(self) -> Filter:
        found = self._or()
        if self._now.kind != "end":
            raise self._expected("'and', 'or' or the end")
        return found

    def _or(self) -> Filter:
        items = self._joined("or", self._and)
        return items[0] if len(items) == 1 else Or(items)

    def _and(self) -> Filter:
        items = self._joined("and", self._not)
        return items[0] if len(items) == 1 else And(items)

    def _joined(self, keyword: str, item: Callable[[], Filter]) -> tuple[Filter, ...]:
        items = [item()]
        while self._take("keyword", keyword):
            items.append(item())
        return tuple(items)

    def _not(self) -> Filter:
        at = self._now.at
        if not (negated := self._take("keyword", "not")) and not self._take("mark", "("):
            return self._term()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Mistake(self._text, at, f"a filter is at most {MAX_DEPTH} parentheses and 'not' deep.")
        found = Not(self._not()) if negated else self._or()
        if not negated and not self._take("mark", ")"):
            raise self._expected("'and', 'or' or ')'")
        self._depth -= 1
        return found

    def _term(self) -> Filter:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise Mistake(self._text, self._now.at, f"a filter has at most {MAX_TERMS} comparisons.")
        if self._take("keyword", "has"):
            return Term(self._field("a field"), "has")
        field = self._field("a field, 'has', 'not' or '('")
        negated = self._take("keyword", "not")
        if self._take("keyword", "in"):
            term = Term(field, "=", self._list())
            return Not(term) if negated else term
        if negated:
            raise self._expected("'in'")
        mark = self._now
        if mark.kind != "mark" or mark.text not in _COMPARE:
            raise self._expected(f"one of {' '.join(_COMPARE)} or 'in'")
        self._place += 1
        if mark.text == "!=":
            return Not(Term(field, "=", (self._value(),)))
        return Term(field, cast("Operator", mark.text), (self._value(),))

    def _field(self, expected: str) -> Field:
        token = self._now
        if token.kind != "word":
            raise self._expected(expected)
        self._place += 1
        part = self._now
        if not token.text.endswith("."):
            return read_field(token.text, token.at)
        if part.kind != "string" or part.at != token.end:
            raise self._expected(f'what follows {token.text!a}, as in {token.text}name or {token.text}"any name"')
        self._place += 1
        return read_field(token.text, token.at, part.text)

    def _list(self) -> tuple[Value, ...]:
        if not self._take("mark", "("):
            raise self._expected("'('")
        values = [self._value()]
        while self._take("mark", ","):
            values.append(self._value())
        if not self._take("mark", ")"):
            raise self._expected("',' or ')'")
        return tuple(values)

    def _value(self) -> Value:
        token = self._now
        if token.kind not in ("word", "string"):
            raise self._expected('a value, such as 16, production or "any text"')
        self._values += 1
        if self._values > MAX_VALUES:
            raise Mistake(self._text, token.at, f"a filter has at most {MAX_VALUES} values.")
        self._place += 1
        return Value(token.text, number_in(token.text) if token.kind == "word" else None, token.at)

    @property
    def _now(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, kind: str, text: str) -> bool:
        found = (self._now.kind, self._now.text.lower()) == (kind, text)
        self._place += found
        return found

    def _expected(self, what: str) -> Mistake:
        return Mistake(self._text, self._now.at, f"expected {what}, found {self._now.shown}.")


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None and text[at] in "\"'":
            raise Mistake(text, at, f"this text in quotes has no end; expected another {text[at]}.")
        if match is None:
            raise Mistake(text, at, f"{text[at]!a} means nothing here; put text into quotes.")
        if match.lastgroup != "blank":
            yield _token(text, match)
        at = match.end()
    yield _Token("end", "", at, at)


def _token(text: str, match: re.Match[str]) -> _Token:
    at, end, found = match.start(), match.end(), match[0]
    if match.lastgroup == "string":
        found = _ESCAPED.sub(r"\1", found[1:-1])
        wrong = next((place for place in range(at, end) if not _plain(text[place])), None)
        if wrong is not None:
            raise Mistake(text, wrong, f"{text[wrong]!a} cannot stand in a text.")
        return _Token("string", found, at, end)
    if match.lastgroup == "word":
        return _Token("keyword" if found.lower() in _KEYWORDS else "word", found, at, end)
    return _Token("mark", found, at, end)


def _plain(letter: str) -> bool:
    """Neither a control character, which no database keeps the same, nor half of a surrogate pair."""
    return letter >= " " and letter != "\x7f" and not "\ud800" <= letter <= "\udfff"
