"""The budget of a config's regular expressions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from hashlib import pbkdf2_hmac

import pytest

from graftwork.adapters.patterns import Matcher
from graftwork.errors import Refused


@pytest.fixture
def busy() -> Iterator[None]:
    """The process's other threads are at the processor all the time."""
    over = threading.Event()

    def burn() -> None:
        while not over.is_set():
            pbkdf2_hmac("sha256", b"", b"", 20_000)  # without the interpreter's lock

    threads = [threading.Thread(target=burn) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def test_what_other_threads_do_makes_no_pattern_bad(busy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.adapters.patterns.BUDGET_S", 0.5)
    assert Matcher().matches(r".*?.*?.*?.*?x|.*proj", "q" * 140 + "_proj")  # a few tenths of a second


def test_what_a_processor_is_at_for_too_long_is_refused_and_the_rest_of_the_config_with_it() -> None:
    matcher = Matcher()
    with pytest.raises(Refused, match="takes too long to match"):
        matcher.matches(r"(.*?){1,50}(.*?){1,50}(.*?){1,50}[!?]", "model.layers.0.self_attn.q_proj")
    with pytest.raises(Refused, match="takes too long to match"):
        matcher.matches(r".*", "q_proj")
