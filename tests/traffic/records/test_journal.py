"""The journal: in batches, in order, and never in the way; what is committed is there, what is lost is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from graftwork.errors import GraftworkError, Unavailable
from graftwork.traffic.records import journal as journal_module
from graftwork.traffic.records.entry import Entry
from graftwork.traffic.records.journal import BATCH, Journal
from graftwork.traffic.records.record import Record

PATIENCE_S = 30.0


def entry(number: int, size: int = 1) -> Entry:
    return Entry(Record("local", str(number), "", 0, "/v1/x", "me", 0.1, "ok", 200), size=size)


class Desk:
    """A journal, what it wrote and dropped, and the failures that it meets."""

    def __init__(self, **options: float) -> None:
        self.batches: list[list[int]] = []
        self.dropped = 0
        self.failures: list[Exception] = []
        self.open = threading.Event()
        self.open.set()
        self.journal = Journal(self._write, dropped=self._drop, **options)  # type: ignore[arg-type]

    def _write(self, entries: Sequence[Entry]) -> None:
        assert self.open.wait(PATIENCE_S)
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append([int(one.record.request_id) for one in entries])

    def _drop(self, count: int) -> None:
        self.dropped += count

    def flush(self) -> None:
        self.journal.flush().result(PATIENCE_S)
        self.journal.check()

    @property
    def written(self) -> list[int]:
        return [one for batch in self.batches for one in batch]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "RETRY_S", 0.0)


def test_what_is_put_is_written_in_order_and_in_batches() -> None:
    desk = Desk(pause_s=PATIENCE_S)
    count = 3 * BATCH + 7
    for number in range(count):
        desk.journal.put(entry(number))
    desk.flush()
    assert desk.written == list(range(count))
    assert all(len(batch) <= BATCH for batch in desk.batches) and len(desk.batches) < 10


def test_what_is_put_is_written_soon_though_nobody_asks() -> None:
    done = threading.Event()
    journal = Journal[Entry](lambda _: done.set(), dropped=lambda _: None, pause_s=0.01)
    journal.put(entry(1))
    assert done.wait(PATIENCE_S)
    journal.close()


def test_those_who_wait_share_a_write() -> None:
    desk = Desk(pause_s=PATIENCE_S)
    desk.open.clear()
    futures = [desk.journal.commit(entry(number)) for number in range(50)]
    desk.open.set()
    for future in futures:
        future.result(PATIENCE_S)
    assert desk.written == list(range(50)) and len(desk.batches) <= 2


def test_nobody_waits_for_a_database_that_does_not_keep_up_and_what_is_too_much_is_counted() -> None:
    desk = Desk(most=10, pause_s=0.0)
    desk.open.clear()
    for number in range(1000):
        desk.journal.put(entry(number))
    desk.journal.check()
    desk.open.set()
    desk.flush()
    assert desk.dropped + len(desk.written) == 1000 and 10 <= len(desk.written) <= 21


def test_large_prompts_do_not_fill_the_memory() -> None:
    desk = Desk(most_bytes=100, pause_s=PATIENCE_S)
    for number in range(4):
        desk.journal.put(entry(number, size=40))
    desk.flush()
    assert desk.written == [0, 1] and desk.dropped == 2


def test_while_the_database_is_away_records_wait_and_who_waits_is_told(quick: None) -> None:
    desk = Desk(pause_s=PATIENCE_S)
    desk.failures = [Unavailable("no disk"), Unavailable("no disk")]
    for number in range(3):
        desk.journal.put(entry(number))
    with pytest.raises(Unavailable):
        desk.journal.commit(entry(3)).result(PATIENCE_S)
    with pytest.raises(Unavailable):
        desk.journal.flush().result(PATIENCE_S)
    desk.flush()
    assert desk.written == [0, 1, 2] and desk.dropped == 1, "the one whose caller was told is not written"


@pytest.mark.parametrize("error", [ValueError("a bug"), GraftworkError("no")])
def test_what_can_never_be_written_does_not_block_the_others(error: Exception, quick: None) -> None:
    desk = Desk(pause_s=PATIENCE_S)
    desk.failures = [error]
    desk.journal.put(entry(1))
    with pytest.raises(type(error)):
        desk.journal.flush().result(PATIENCE_S)
    desk.journal.put(entry(2))
    desk.flush()
    assert desk.written == [2] and desk.dropped == 1


def test_closing_writes_what_waits_and_takes_nothing_more() -> None:
    desk = Desk(pause_s=PATIENCE_S)
    desk.journal.put(entry(1))
    desk.journal.close()
    desk.journal.put(entry(2))
    late: Callable[[], object] = desk.journal.commit(entry(3)).result
    with pytest.raises(Unavailable):
        late()
    assert desk.written == [1] and desk.dropped == 1


def test_a_caller_that_is_gone_leaves_its_record() -> None:
    desk = Desk(pause_s=PATIENCE_S)
    desk.open.clear()
    first = desk.journal.commit(entry(1))
    second = desk.journal.commit(entry(2))
    second.cancel()
    desk.open.set()
    first.result(PATIENCE_S)
    desk.flush()
    assert desk.written == [1, 2]
