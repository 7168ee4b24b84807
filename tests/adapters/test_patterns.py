"""The budget of a config's regular expressions."""

from __future__ import annotations

import time

import pytest

from graftwork.adapters import patterns
from graftwork.adapters.patterns import Matcher
from graftwork.errors import Refused


def test_a_machine_that_stood_still_makes_no_pattern_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that is halted in the middle of a match: the clock goes on, its processor time does not."""
    whole = patterns._compiled

    class Halting:
        def __init__(self, pattern: str) -> None:
            self._whole, self._halts = whole(pattern), 2

        def fullmatch(self, module: str, *, concurrent: bool, timeout: float) -> object:
            if self._halts:
                self._halts -= 1
                time.sleep(patterns.BUDGET_S)
                raise TimeoutError
            return self._whole.fullmatch(module, concurrent=concurrent, timeout=timeout)

    halting = Halting(r".*\.q_proj")
    monkeypatch.setattr(patterns, "_compiled", lambda _: halting)
    assert Matcher().matches(r".*\.q_proj", "layers.0.q_proj")


def test_what_a_processor_is_at_for_too_long_is_refused_and_the_rest_of_the_config_with_it() -> None:
    matcher = Matcher()
    with pytest.raises(Refused, match="takes too long to match"):
        matcher.matches(r"(.*?){1,50}(.*?){1,50}(.*?){1,50}[!?]", "model.layers.0.self_attn.q_proj")
    with pytest.raises(Refused, match="takes too long to match"):
        matcher.matches(r".*", "q_proj")
