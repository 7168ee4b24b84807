"""The white space that a JSON answer may have between its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it is there for type checkers only
    from llguidance._lib import JsonCompileOptions

#: One space, or a line's end and its indentation. With any number of them a small model may fill its answer.
WHITESPACE: JsonCompileOptions = {"whitespace_flexible": True, "whitespace_pattern": r"( |\n {0,16})"}
