"""How far llguidance may go for one grammar, and the white space that it lets an answer have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llguidance import LLParserLimits

if TYPE_CHECKING:  # it is there for type checkers only
    from llguidance._lib import JsonCompileOptions

#: A fifth to a half of its own: some tenths of a second to prepare, some milliseconds for a step, some ten megabytes.
PARSER_LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=100_000,
    step_max_items=20_000,
    max_lexer_states=20_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)

#: Between the parts of a JSON value: one space, or a line's end and its indentation. With any number of them a small
#: model may fill its answer.
WHITESPACE_PATTERN = r"( |\n {0,16})"
WHITESPACE: JsonCompileOptions = {"whitespace_flexible": True, "whitespace_pattern": WHITESPACE_PATTERN}
