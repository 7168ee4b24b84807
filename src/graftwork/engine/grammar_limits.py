"""How far llguidance may go for one grammar."""

from __future__ import annotations

from llguidance import LLParserLimits

#: A fifth to a half of its own: some tenths of a second to prepare, some milliseconds for a step, some ten megabytes.
PARSER_LIMITS = LLParserLimits(
    initial_lexer_fuel=200_000,
    step_lexer_fuel=100_000,
    step_max_items=20_000,
    max_lexer_states=20_000,
    max_grammar_size=100_000,
    verbose_errors=False,
)
