"""Matching a config's module names and regular expressions against module paths, in bounded processor time altogether.

Rules: `peft.utils.other.get_pattern_key` and `peft.tuners.tuners_utils.match_target_against_key`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache

import regex

from graftwork.errors import Refused

#: Most names or patterns in one field, and the longest one, in characters.
MAX_PATTERNS = 2048
MAX_CHARS = 512
#: How long a processor may be at all regular expressions of one config together, in seconds.
BUDGET_S = 1.0

_PLAIN = regex.compile(r"[A-Za-z0-9_.-]+")


class Matcher:
    """Matches for one config; its regular expressions share one budget of time."""

    def __init__(self) -> None:
        self._left_s = BUDGET_S

    def first_key(self, keys: Iterable[str], module: str) -> str | None:
        """The first key that means `module`: as a whole path, or as the end of one after a dot."""
        return next((key for key in keys if self._ends_with(key, module)), None)

    def matches(self, pattern: str, module: str) -> bool:
        """Whether a regular expression matches the whole path.

        Raises:
            Refused: when it is not a regular expression, or the budget is spent.
        """
        expression, timeout_s = _compiled(pattern), self._left_s
        while self._left_s > 0:
            began_s = time.thread_time()
            try:
                return expression.fullmatch(module, concurrent=True, timeout=timeout_s) is not None
            except TimeoutError:
                timeout_s *= 2  # it counts what all threads do
            finally:
                self._left_s -= time.thread_time() - began_s
        raise Refused(f"adapter_config.json: the pattern {pattern[:80]!r} takes too long to match.")

    def _ends_with(self, key: str, module: str) -> bool:
        if not _PLAIN.fullmatch(key):
            return self.matches(rf"(.*\.)?({key})", module)
        # The same answer without a regular expression: a dot of the key stands for any character.
        start = len(module) - len(key)
        if start < 0 or (start and module[start - 1] != "."):
            return False
        return module.endswith(key) or all(k in (".", m) for k, m in zip(key, module[start:], strict=True))


@lru_cache(256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise Refused(f"adapter_config.json: {pattern[:80]!r} is not a regular expression: {error}") from error
