"""Collections in another process, killed at any moment, beside pushes here: nothing that is there loses a byte."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.errors import Conflict, Damaged, GraftworkError
from support.scale import times
from support.yard import Yard

if TYPE_CHECKING:
    from support.desk import Desk

#: Collects without a pause, whatever its age, until it is killed.
COLLECTOR = """
import sys
from pathlib import Path
from graftwork.artifacts.stores import open_store
from graftwork.artifacts.uploads import Uploads
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Database
from graftwork.errors import GraftworkError
from graftwork.registry.retention.collector import Collector
from graftwork.registry.retention.sweep import Bounds
database, store, root = sys.argv[1], open_store(sys.argv[2]), Path(sys.argv[3])
copies = WorkingCopies(root / "bundles", store)
collector = Collector(Database(database), store, Uploads(root / "uploads"), {"copy": copies})
while True:
    print("begin", flush=True)
    try:
        collector.collect("local", Bounds(older_than_s=0), actor="collector")
    except GraftworkError as error:
        sys.exit(str(error))
"""


@contextmanager
def collecting(yard: Yard) -> Iterator[subprocess.Popen[str]]:
    """A process that collects, killed at the end in the middle of whatever it does."""
    arguments = [sys.executable, "-W", "error", "-c", COLLECTOR, yard.desk.url, yard.store_url, str(yard.root)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        yield process
        assert process.poll() is None, "it ended by itself"
    finally:
        process.kill()
        process.communicate()


def push_and_delete(yard: Yard, source: random.Random, rounds: int) -> int:
    """How many pushes were registered; those whose files were collected meanwhile are not."""
    done = 0
    for _ in range(rounds):
        name, weights = f"tone-{source.randrange(3)}", bytes([source.randrange(4)]) * 50
        try:
            version = yard.push(name, weights)
        except (Conflict, Damaged, GraftworkError):
            continue
        done += 1
        if source.random() < 0.6:
            yard.delete(version.label)
    return done


@pytest.mark.parametrize(
    ("database_kind", "place"), [("sqlite", "file"), ("postgresql", "s3")], indirect=["database_kind"]
)
def test_a_collector_that_is_killed_again_and_again_beside_pushes(
    make_desk: Callable[[], Desk], tmp_path: Path, place: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("seaweedfs_server").url() if place == "s3" else ""
    yard, source, done = Yard(make_desk(), tmp_path, store_url=url), random.Random(7), 0
    for _ in range(times(3, 20)):
        with ExitStack() as stack:
            process = stack.enter_context(collecting(yard))
            done += push_and_delete(yard, source, times(12, 40))
            assert process.stdout is not None
        yard.check()
    assert done, "not every push was outrun"
    yard.push("tone-0", b"after all of it")
    yard.collect()
    yard.check()
    assert yard.look().items == ()
