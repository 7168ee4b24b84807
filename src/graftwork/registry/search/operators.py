"""Operators that the two databases write differently: part of a text, and words of it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Boolean, ColumnElement, literal
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from graftwork.db.schema import texts


class _Contains(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True


class _HasWords(FunctionElement[bool]):
    type = Boolean()
    inherit_cache = True


def contains(column: ColumnElement[str], text: str) -> ColumnElement[bool]:
    """Whether a column's text has `text` in it; A to Z are as a to z, all else is compared as it is."""
    return _Contains(column, literal("".join(letter.lower() if letter.isascii() else letter for letter in text)))


def has_words(words: list[tuple[str, bool]]) -> ColumnElement[bool]:
    """Whether a row of `texts` has all of these words, those that come with True as beginnings of words.

    The words are letters and digits only (`db/index_terms.py`), so that nothing in them means anything to a database.
    """
    sqlite = " ".join(f'"{word}"' + "*" * start for word, start in words)
    postgresql = " & ".join(f"'{word}'" + ":*" * start for word, start in words)
    return _HasWords(texts.c.id, texts.c.words, literal(sqlite), literal(postgresql))


@compiles(_Contains)
def _contains(element: _Contains, compiler: Any, **kw: Any) -> str:
    column, text = (compiler.process(one, **kw) for one in element.clauses)
    return f"(instr(lower({column}), {text}) > 0)"


@compiles(_Contains, "postgresql")
def _contains_postgresql(element: _Contains, compiler: Any, **kw: Any) -> str:
    column, text = (compiler.process(one, **kw) for one in element.clauses)
    return f'(strpos(lower({column} COLLATE "C"), {text}) > 0)'


@compiles(_HasWords)
def _has_words(element: _HasWords, compiler: Any, **kw: Any) -> str:
    row, _, query, _ = element.clauses
    match = f"SELECT rowid FROM texts_fts WHERE texts_fts MATCH {compiler.process(query, **kw)}"
    return f"({compiler.process(row, **kw)} IN ({match}))"


@compiles(_HasWords, "postgresql")
def _has_words_postgresql(element: _HasWords, compiler: Any, **kw: Any) -> str:
    _, words, _, query = element.clauses
    # As the index of r0008 writes it, or it would not serve.
    vector = f"array_to_tsvector(string_to_array({compiler.process(words, **kw)}, ' '))"
    return f"({vector} @@ CAST({compiler.process(query, **kw)} AS tsquery))"
