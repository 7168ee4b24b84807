"""A process that renders chat templates of strangers.

It is asked `{"template", "fields", "max_chars"}` and answers `{"text"}` or `{"error"}`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jinja2

from graftwork.adapters.companions.chat_template import environment
from graftwork.engine.limited_worker import serve

_MAX_ERROR_CHARS = 500


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"text": _render(asked["template"], asked["fields"], asked["max_chars"])}
    except MemoryError:
        return {"error": "it needs more memory than a template may have"}
    except RecursionError:
        return {"error": "it calls itself without end"}
    except Exception as error:  # a template is a stranger's program; whatever it raises is its refusal
        return {"error": (str(error) or type(error).__name__)[:_MAX_ERROR_CHARS]}


def _render(source: str, fields: dict[str, Any], max_chars: int) -> str:
    pieces, length = [], 0
    for piece in _compiled(source).generate(**fields):
        pieces.append(piece)
        length += len(piece)
        if length > max_chars:
            raise ValueError(f"its text has more than {max_chars} characters")
    return "".join(pieces)


@lru_cache(maxsize=1)
def _compiled(source: str) -> jinja2.Template:
    return environment().from_string(source)


if __name__ == "__main__":
    serve(_answer)
