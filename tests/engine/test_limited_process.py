"""LimitedProcess: what is not the caller's doing is not told as his."""

from __future__ import annotations

import errno
import subprocess
from typing import Any

import pytest

from graftwork.engine.limited_process import LimitedProcess, ProcessLimits
from graftwork.errors import Unavailable

LIMITS = ProcessLimits(2.0)


def test_a_process_that_the_system_does_not_start_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", full)
    with pytest.raises(Unavailable, match="that tries grammars does not start: Resource temporarily unavailable"):
        LimitedProcess("graftwork.engine.grammar_worker", "tries grammars", LIMITS).ask({}, 100)


def test_nothing_is_started_once_it_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = LimitedProcess("graftwork.engine.grammar_worker", "tries grammars", LIMITS)
    process.end()
    monkeypatch.setattr(subprocess, "Popen", None)
    assert process.ask({}, 100) is None
