"""The inside of a LimitedProcess: reads one JSON object a line and answers each with one line, within its limits.

Its arguments are BYTES and SECONDS: it may have so much address space and, for each line, so much processor time.
"""

from __future__ import annotations

import json
import math
import resource
import sys
from collections.abc import Callable
from typing import Any

READY = b"ready\n"


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer until nobody asks any more; past a limit the process dies, and so does whoever raises."""
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
        out.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
        out.flush()


def _limit(what: int, amount: int) -> None:
    """The soft limit, so that it can be moved on; never above the hard one."""
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (amount if hard == resource.RLIM_INFINITY else min(amount, hard), hard))
