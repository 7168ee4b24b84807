"""How often a soak or crash test repeats: a little in `make test`, in full in `make test-long`; and from which seed."""

from __future__ import annotations

import os
import secrets

LONG = os.environ.get("GRAFTWORK_TEST_LONG") == "1"
_SEED = os.environ.get("GRAFTWORK_SOAK_SEED")


def times(short: int, long: int) -> int:
    """The count for this run."""
    return long if LONG else short


def soak_seed() -> int:
    """As `GRAFTWORK_SOAK_SEED` says; else always the same in `make test`, and another one in each `make test-long`."""
    if _SEED is not None:
        return int(_SEED)
    return times(1, secrets.randbits(32))
