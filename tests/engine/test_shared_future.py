"""result_of: many wait, some leave."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import Future
from typing import Any

import pytest

from graftwork.engine.shared_future import result_of


async def test_those_who_stay_get_the_result_though_another_leaves() -> None:
    future: Future[int] = Future()
    waiting = [asyncio.create_task(result_of(future)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    future.set_result(7)
    assert [await one for one in waiting[1:]] == [7, 7] and waiting[0].cancelled()


async def test_an_error_is_told_to_those_who_stay_and_logged_for_nobody() -> None:
    logged: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: logged.append(context))
    future: Future[int] = Future()
    leaves, stays = (asyncio.create_task(result_of(future)) for _ in range(2))
    await asyncio.sleep(0)
    leaves.cancel()
    await asyncio.sleep(0)
    future.set_exception(ValueError("away"))
    with pytest.raises(ValueError, match="away"):
        await stays
    del leaves, stays, future
    gc.collect()
    assert not logged
