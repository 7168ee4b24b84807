"""Inbox: an idle loop waits for a batch, and no longer than it has to."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from graftwork.engine.inbox import Abort, Inbox, Loaded, Message, Submit

LONG_S = 60.0
ROW = Submit(cast(Any, None))


class Clock:
    """Goes on by a second whenever it is looked at."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def filled(*messages: Message, wait_s: float = 0.0, rows: int = 4) -> Inbox:
    inbox = Inbox(wait_s, rows, Clock())
    for message in messages:
        inbox.put(message)
    return inbox


def test_a_busy_loop_takes_what_is_there_in_order() -> None:
    assert filled().read() == []
    assert filled(ROW, Abort("a"), Loaded("d", None)).read() == [ROW, Abort("a"), Loaded("d", None)]


def test_without_a_window_the_first_message_is_enough() -> None:
    assert filled(ROW).wait(None) == [ROW]
    assert filled(ROW, ROW).wait(None) == [ROW, ROW]


def test_nothing_comes_in_time() -> None:
    assert filled().wait(0.001) == []


def test_a_full_batch_waits_no_longer() -> None:
    assert filled(ROW, Abort("a"), ROW, wait_s=LONG_S, rows=2).wait(None) == [ROW, Abort("a"), ROW]
    assert filled(*[ROW] * 5, wait_s=LONG_S, rows=2).wait(None) == [ROW] * 5, "what is there already comes along"


def test_a_stop_waits_for_nobody() -> None:
    assert filled(ROW, None, wait_s=LONG_S).wait(None) == [ROW, None]


@pytest.mark.parametrize("message", [Abort("a"), Loaded("d", None)])
def test_what_brings_no_row_opens_no_window(message: Message) -> None:
    inbox = filled(message, wait_s=LONG_S)
    late = threading.Timer(0.2, inbox.put, [ROW])
    late.start()
    assert inbox.wait(None) == [message]
    late.cancel()


def test_the_window_closes() -> None:
    assert filled(ROW, ROW, ROW, wait_s=1.5, rows=9).wait(None) == [ROW] * 3
    assert filled(ROW, wait_s=0.001).wait(None) == [ROW]


def test_a_row_that_comes_in_the_window_is_in_the_batch() -> None:
    inbox = Inbox(LONG_S, 2, lambda: 0.0)
    inbox.put(ROW)
    late = threading.Timer(0.01, inbox.put, [ROW])
    late.start()
    assert inbox.wait(None) == [ROW, ROW]
    late.join()
