"""What is remembered of loads that failed."""

from __future__ import annotations

import asyncio

import pytest

from graftwork.engine.load_failures import LoadFailures, let_go_of_frames
from graftwork.engine.request import AdapterHandle
from graftwork.errors import Refused, UnknownModel
from support.engines import FolderSource, running
from support.fixtures import Tiny

HANDLE = AdapterHandle("sha256:a", "local", "a:1.0.0")


async def test_who_was_told_of_a_failure_goes_on_while_the_load_lets_go_of_its_frames() -> None:
    """A loader notes the failure, somebody meets it and waits for something else, and only then the load ends."""
    failures, resumed = LoadFailures(60.0), asyncio.Event()
    refused = Refused("No.", problems=("r is 0",))

    async def caller() -> str:
        try:
            failures.check(HANDLE.digest)
        except Refused as error:
            told = error
        await resumed.wait()
        return f"{told.message} {told.problems}"

    try:
        raise refused
    except Refused as error:
        failures.note(HANDLE, error)
        waits = asyncio.create_task(caller())
        await asyncio.sleep(0)
        let_go_of_frames(error)
    for _ in range(2):  # nor may a later load that meets the failure end it
        try:
            failures.check(HANDLE.digest)
        except Refused as error:
            let_go_of_frames(error)
    resumed.set()
    assert await waits == "No. ('r is 0',)"


@pytest.mark.parametrize("error", [Refused("No.", problems=("a", "b")), UnknownModel("a")], ids=["refused", "unknown"])
def test_each_is_told_the_same_by_an_error_of_his_own(error: Refused | UnknownModel) -> None:
    failures = LoadFailures(60.0)
    failures.note(HANDLE, error)
    ways = failures.of, failures.of, failures.recent().get, failures.recent().get
    told = [found.error for way in ways if (found := way(HANDLE.digest)) is not None]
    assert len({id(one) for one in (error, *told)}) == 1 + len(ways)
    for one in told:
        assert (type(one), one.args, vars(one)) == (type(error), error.args, vars(error))


@pytest.mark.parametrize("way", ["load", "companions"])
async def test_a_source_that_raises_one_error_again_ends_nobody_who_was_told_of_it(tiny: Tiny, way: str) -> None:
    source, told, resumed = FolderSource(tiny.root, failure=Refused("No.")), asyncio.Event(), asyncio.Event()
    async with running(tiny, source) as engine:

        async def caller() -> str:
            try:
                await getattr(engine, way)(HANDLE)
            except Refused as error:
                told.set()
                await resumed.wait()
                return error.message
            return "It came."

        waits = asyncio.create_task(caller())
        await told.wait()
        with pytest.raises(Refused):
            await getattr(engine, way)(HANDLE)
        resumed.set()
        async with asyncio.timeout(10):
            assert await waits == "No."


def test_a_failure_counts_for_its_time_and_can_be_forgotten() -> None:
    now = [100.0]
    failures = LoadFailures(5.0, lambda: now[0])
    failures.note(HANDLE, Refused("No."))
    assert set(failures.recent()) == {HANDLE.digest}
    now[0] = 105.0
    assert failures.of(HANDLE.digest) is None and not failures.recent()
    failures.note(HANDLE, Refused("No."))
    failures.forget(HANDLE.digest)
    failures.check(HANDLE.digest)
    off = LoadFailures(0.0)
    off.note(HANDLE, Refused("No."))
    assert off.of(HANDLE.digest) is None
