"""A process that renders chat templates of strangers: `python -m graftwork.engine.template_worker BYTES SECONDS`.

It reads one JSON object a line, `{"template", "fields", "max_chars"}`, and answers each with one line, `{"text"}` or
`{"error"}`. It may have BYTES of address space and, for each line, SECONDS of processor time; past that it dies.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from functools import lru_cache
from typing import Any

import jinja2

from graftwork.adapters.companions.chat_template import environment

READY = b"ready\n"
_MAX_ERROR_CHARS = 500


def main() -> None:
    memory_bytes, time_s = int(sys.argv[1]), float(sys.argv[2])
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NPROC, 0)
    out = sys.stdout.buffer
    out.write(READY)
    out.flush()
    for line in sys.stdin.buffer:
        spent = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, math.ceil(spent.ru_utime + spent.ru_stime + time_s) + 1)
        out.write(json.dumps(_answer(line)).encode() + b"\n")
        out.flush()


def _answer(line: bytes) -> dict[str, str]:
    try:
        asked = json.loads(line)
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


def _limit(what: int, amount: int) -> None:
    """The soft limit, so that it can be moved on; never above the hard one."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))


if __name__ == "__main__":
    main()
