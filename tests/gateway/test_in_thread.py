"""Work of loops beside the requests: none of it outlives its loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from graftwork.errors import Unavailable
from graftwork.gateway.in_thread import in_thread


async def test_what_work_gives_or_raises_is_the_callers() -> None:
    def fail() -> None:
        raise Unavailable("Not now.")

    assert await in_thread(int, "ff", base=16) == 255
    with pytest.raises(Unavailable):
        await in_thread(fail)


@pytest.mark.parametrize("fails", [False, True])
async def test_who_is_cancelled_ends_when_the_work_has(fails: bool) -> None:
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert go_on.wait(30)
        ended.set()
        if fails:
            raise Unavailable("Not now.")

    caller = asyncio.create_task(in_thread(work))
    assert await asyncio.to_thread(began.wait, 30)
    caller.cancel()
    await asyncio.wait([caller], timeout=0.05)
    assert not caller.done(), "its work goes on"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended.is_set()
