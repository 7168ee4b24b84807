"""Killed, a server loses the newest records at most, and none that somebody waited for."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import islice

from sqlalchemy import select

from graftwork.db import Database
from graftwork.db.schema import predictions

#: Records for ever; every twentieth is waited for. A line says that a number was taken.
WORKER = """
import sys
from graftwork.db import Database
from graftwork.traffic.records.entry import Entries, Entry
from graftwork.traffic.records.journal import Journal
from graftwork.traffic.records.record import Record
from graftwork.traffic.records.vault import Vault
from itertools import count

with Database(sys.argv[1]) as database:
    journal = Journal(Entries(database, Vault(None)).write, dropped=lambda _: None, pause_s=0.01)
    for number in count():
        at = f"2026-01-31T09:30:00.{number:06}Z"
        entry = Entry(Record("local", f"{number:06}", at, 0, "/v1/x", "me", 0.1, "ok", 200, adapter="tone"))
        if number % 20:
            journal.put(entry)
        else:
            journal.commit(entry).result()
        print(number, flush=True)
"""


def test_killed_what_was_written_is_whole_and_what_was_waited_for_is_there(database_url: str) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER, database_url], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    taken = [int(line) for line in islice(worker.stdout, 250)]
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    with Database(database_url) as database, database.reading() as tx:
        found = [int(one) for one in tx.execute(select(predictions.c.request_id).order_by("request_id")).scalars()]
    assert found == list(range(len(found))), "in order, without gaps"
    assert set(range(0, taken[-1] + 1, 20)) <= set(found), "nothing that was waited for is lost"
