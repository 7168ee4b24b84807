"""A process that renders templates of strangers.

It is asked `{"templates", "fields", "max_chars"}` and answers `{"texts"}`, together of at most so many characters, or
`{"error"}`.
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
        return {"texts": _render(asked["templates"], asked["fields"], asked["max_chars"])}
    except MemoryError:
        return {"error": "it needs more memory than a template may have"}
    except RecursionError:
        return {"error": "it calls itself without end"}
    except Exception as error:  # a template is a stranger's program; whatever it raises is its refusal
        return {"error": (str(error) or type(error).__name__)[:_MAX_ERROR_CHARS]}


def _render(sources: list[str], fields: dict[str, Any], max_chars: int) -> list[str]:
    texts, length = [], 0
    for source in sources:
        pieces = []
        for piece in _compiled(source).generate(**fields):
            pieces.append(piece)
            length += len(piece)
            if length > max_chars:
                raise ValueError(f"its text has more than {max_chars} characters")
        texts.append("".join(pieces))
    return texts


@lru_cache(maxsize=8)
def _compiled(source: str) -> jinja2.Template:
    return environment().from_string(source)


if __name__ == "__main__":
    serve(_answer)
