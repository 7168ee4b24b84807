"""How often a soak or crash test repeats: a little in `make test`, in full in `make test-long`."""

from __future__ import annotations

import os

LONG = os.environ.get("GRAFTWORK_TEST_LONG") == "1"


def times(short: int, long: int) -> int:
    """The count for this run."""
    return long if LONG else short
