"""Sessions in memory and in the database: two servers agree, a restart loses nothing, and nothing grows without end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select

from graftwork.db import Database
from graftwork.db.schema import session_pins
from graftwork.errors import Unavailable
from graftwork.traffic.sessions import sessions as sessions_module
from graftwork.traffic.sessions.pin import Pin, Pins, Turn, session_key
from graftwork.traffic.sessions.sessions import Sessions
from support.rollouts import SetClock
from support.waiting import eventually

PLACE = ("support", "")
OLD, NEW = (Pin("support", f"sha256:{digit}" + digit * 63, "candidate", "support/1") for digit in "ab")
ANN = ("local", session_key("user:ann", "chat"))


def turn(pin: Pin, *, ground: int = 1, route: str = "support") -> Turn:
    return Turn((route, ""), "began", pin, (ground, None, ()))


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def new_sessions(database_url: str, clock: SetClock) -> Iterator[Callable[..., Sessions]]:
    """Makes another server's, on the same database."""
    made: list[tuple[Sessions, Database]] = []

    def new(**told: Any) -> Sessions:
        database = Database(database_url)
        given = {"ttl_s": 80.0, "clock": clock, "pause_s": 0.01, **told}
        made.append((Sessions(database, **given), database))
        return made[-1][0]

    yield new
    for sessions, database in made:
        sessions.check()
        sessions.close()
        database.close()


def held(sessions: Sessions, name: tuple[str, str] = ANN) -> Pins:
    known = sessions.known(name)
    found = known if known is not None else sessions.read(name)
    assert found is not None
    return found


def test_another_server_and_one_after_a_restart_know_what_a_session_keeps_to(
    new_sessions: Callable[..., Sessions],
) -> None:
    one = new_sessions()
    assert held(one) == {}
    one.take(ANN, turn(OLD), "ann")
    one.take(ANN, turn(NEW, route="other"), "ann")
    assert held(one) == {PLACE: OLD, ("other", ""): NEW}, "at once, here"
    assert one.agrees(ANN, turn(OLD))
    assert not one.agrees(ANN, turn(OLD, ground=2))
    assert one.flush()
    other = new_sessions()
    assert other.known(ANN) is None, "it has to be read"
    assert held(other) == held(one)
    assert other.known(ANN) == held(one), "and then is known"
    assert held(other, ("acme", ANN[1])) == {}, "of another tenant"
    one.close()
    assert held(new_sessions()) == {PLACE: OLD, ("other", ""): NEW}


def test_what_is_written_first_of_one_number_stays_and_the_other_server_learns_of_it(
    new_sessions: Callable[..., Sessions],
) -> None:
    one, other = new_sessions(), new_sessions()
    assert held(one) == held(other) == {}
    one.take(ANN, turn(OLD), None)
    assert one.flush()
    other.take(ANN, turn(NEW), None)
    assert held(other) == {PLACE: NEW}
    assert other.flush()
    assert held(other) == {PLACE: OLD}
    assert not other.agrees(ANN, turn(NEW)), "so that it looks again"
    later = replace(NEW, number=2)
    other.take(ANN, turn(later), None)
    assert other.flush()
    assert one.read(ANN) == {PLACE: later}
    one.take(ANN, turn(OLD), None)
    assert held(one) == {PLACE: later}, "a request that was decided before"


def test_a_session_is_kept_while_somebody_comes_back_and_is_written_anew_now_and_then_only(
    new_sessions: Callable[..., Sessions], clock: SetClock, database_url: str
) -> None:
    one, other = new_sessions(), new_sessions()

    def expires() -> str:
        assert one.flush()
        with Database(database_url) as database, database.reading() as tx:
            return str(tx.execute(select(session_pins.c.expires_at)).scalar_one())

    one.take(ANN, turn(OLD), None)
    first = expires()
    clock.pass_by(9)
    one.take(ANN, turn(OLD), None)
    assert expires() == first, "not at each turn"
    for _ in range(4):
        clock.pass_by(60)
        one.take(ANN, turn(OLD), None)
    assert expires() > first
    assert other.read(ANN) == {PLACE: OLD}
    clock.pass_by(91)
    assert one.known(ANN) is None
    assert one.read(ANN) == other.read(ANN) == {}
    one.take(ANN, turn(NEW), None)
    assert one.flush()
    assert other.read(ANN) == {PLACE: NEW}, "what has expired does not count"


def count(url: str) -> int:
    with Database(url) as database, database.reading() as tx:
        return int(tx.execute(select(func.count()).select_from(session_pins)).scalar_one())


def test_what_has_expired_goes_and_of_each_tenant_what_is_too_much(
    new_sessions: Callable[..., Sessions], clock: SetClock, database_url: str
) -> None:
    one = new_sessions(most=10, most_of_tenant=600)
    for number in range(1300):
        name = ("local" if number < 1290 else "acme", session_key("key:1", str(number)))
        one.take(name, turn(OLD), None)
        clock.pass_by(0.01)
    one.check()
    assert one.flush()
    assert count(database_url) == 1300, "also those that are in memory no longer"
    assert one.sweep() == 690
    assert count(database_url) == 610
    assert held(one, ("local", session_key("key:1", "1289"))) == {PLACE: OLD}, "those that came last"
    assert held(one, ("local", session_key("key:1", "0"))) == {}
    clock.pass_by(200)
    assert one.sweep() == 610


def test_with_no_time_to_keep_them_sessions_are_not_kept(new_sessions: Callable[..., Sessions]) -> None:
    assert not new_sessions(ttl_s=0).keeps


def test_a_database_that_cannot_be_read_is_left_alone_for_a_moment(
    new_sessions: Callable[..., Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked = new_sessions(), []

    def down() -> None:
        asked.append(1)
        raise Unavailable("The database is away.")

    monkeypatch.setattr(one._database, "reading", down)
    assert one.read(ANN) is None
    assert one.read(ANN) is None
    assert len(asked) == 1
    one.take(ANN, turn(OLD), None)
    assert one.known(ANN) == {PLACE: OLD}


@pytest.mark.parametrize("wrong", ["a\0b", "\ud800", "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))])
def test_one_pin_that_the_database_refuses_costs_no_other_s(
    new_sessions: Callable[..., Sessions], wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    one = new_sessions(pause_s=0.1)
    names = [("local", session_key("key:1", str(number))) for number in range(6)]
    for name in names:
        one.take(name, turn(OLD), wrong if name == names[3] else "ann")
    assert one.flush(), "nothing is tried again without end"
    other = new_sessions()
    assert [held(other, name) for name in names if name != names[3]] == [{PLACE: OLD}] * 5
    assert wrong[:20] not in caplog.text and names[0][1] not in caplog.text, "what callers say is nothing for a log"


def test_a_database_that_hangs_while_it_is_read_holds_up_no_other_work_and_is_left_alone(
    new_sessions: Callable[..., Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, asked, goes_on = new_sessions(), [], threading.Event()
    reading = one._database.reading

    @contextmanager
    def hanging() -> Iterator[Any]:
        asked.append(1)
        assert goes_on.wait(30)
        with reading() as tx:
            yield tx

    monkeypatch.setattr(one._database, "reading", hanging)
    monkeypatch.setattr(sessions_module, "READ_S", 0.05)
    monkeypatch.setattr(sessions_module, "RETRY_S", 0.0)

    async def first_turns() -> None:
        try:
            names = [("local", str(number)) for number in range(60)]
            assert await asyncio.gather(*(one.look(name) for name in names)) == [None] * 60
            before = time.monotonic()
            await asyncio.to_thread(len, "")
            assert await one.look(ANN) is None
            assert time.monotonic() - before < 5, "other threads are free, and nobody waits any more"
            assert len(asked) == sessions_module.READERS
        finally:
            goes_on.set()
        monkeypatch.setattr(sessions_module, "READ_S", 30.0)
        eventually(lambda: not one._stuck)
        assert await one.look(ANN) == {}

    asyncio.run(first_turns())


def test_after_a_read_that_took_too_long_none_is_begun_for_a_moment(
    new_sessions: Callable[..., Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, goes_on = new_sessions(), threading.Event()
    reading = one._database.reading

    def slow() -> Any:
        assert goes_on.wait(30)
        return reading()

    monkeypatch.setattr(one._database, "reading", slow)
    monkeypatch.setattr(sessions_module, "READ_S", 0.05)

    async def turns() -> None:
        assert await one.look(ANN) is None
        goes_on.set()
        assert await one.look(ANN) is None, "though it would be answered"
        eventually(lambda: not one._stuck)

    asyncio.run(turns())


def test_what_waits_of_a_user_who_is_forgotten_is_never_written(new_sessions: Callable[..., Sessions]) -> None:
    one, bob = new_sessions(pause_s=60.0), ("local", session_key("user:bob", "chat"))
    one.take(ANN, turn(OLD), "ann")
    one.take(bob, turn(NEW), "bob")
    one.forget("local", "ann")
    assert one.flush()
    assert held(new_sessions(), ANN) == {}
    assert held(new_sessions(), bob) == {PLACE: NEW}
    assert held(one, ANN) == {}
