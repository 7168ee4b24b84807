"""Killed at any step, a push leaves nothing visible, and the next one works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.access.events import verify_chain
from graftwork.artifacts.stores.local import LocalStore
from graftwork.registry.snapshot import SnapshotReader
from support.waiting import eventually

if TYPE_CHECKING:
    from support.desk import Desk

#: Uploads three files and registers them, and dies at the n-th call of one function.
WORKER = """
import hashlib, os, sys
from pathlib import Path
from types import SimpleNamespace
from pkgutil import resolve_name
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.artifacts.stores.local import LocalStore
from graftwork.db import Database
from graftwork.registry.registry import Registry
from graftwork.registry.push import PushService

url, home, where, count = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
if where:
    owner, _, name = where.rpartition(".")
    owner = resolve_name(owner)
    real, calls = getattr(owner, name), []

    def dying(*args, **kwargs):
        calls.append(1)
        if len(calls) == count:
            os._exit(9)
        return real(*args, **kwargs)

    setattr(owner, name, dying)

contents = {f"file-{number}": bytes([number]) * 100 for number in range(3)}
digest = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
outline = SimpleNamespace(base="tiny", weights_digest="sha256:" + "b" * 64, source="tiny", revision=None)
account = SimpleNamespace(ok=True, kind="lora", problems=(), rank=8, bytes=8, to_json=lambda: {"ok": True})
store = LocalStore(home / "artifacts")
with Database(url) as database:
    for data in contents.values():
        store.put("local", digest(data), [data])
    manifest = Manifest(tuple(BundleFile(path, len(data), digest(data)) for path, data in contents.items()))
    service = PushService(
        Registry(database), store, WorkingCopies(home / "bundles", store), lambda: outline, lambda folder: account,
        identity_of=lambda folder: SimpleNamespace(
            semantic_digest="sha256:" + "c" * 64, alpha=16, target_modules=None, peft_version=None
        ),
    )
    service.push("local", "tone", manifest, actor="me")
"""

FILES = [
    *(("os.fsync", number) for number in (1, 2, 3, 6)),  # file and folder of each blob
    *(("pathlib.Path.replace", number) for number in (1, 3)),
    *(("pathlib.Path.chmod", number) for number in (1, 3)),  # after each file of the working copy
    ("pathlib.Path.rename", 1),  # the working copy is whole but not in place
]
ROWS = [  # inside the transaction
    ("graftwork.registry.adapters.insert", 1),
    ("graftwork.registry.versions.insert", 1),
    ("graftwork.access.events.append", 1),
    ("graftwork.access.events.append", 2),
]


def push(desk: Desk, home: Path, where: str = "", count: int = 0) -> int:
    arguments = [sys.executable, "-W", "error", "-c", WORKER, desk.url, str(home), where, str(count)]
    return subprocess.run(arguments, timeout=200).returncode


@pytest.mark.parametrize(
    ("database_kind", "where", "count"),
    [*(("sqlite", *step) for step in FILES + ROWS), *(("postgresql", *step) for step in ROWS)],
)
def test_a_killed_push_is_invisible_and_the_next_one_works(desk: Desk, tmp_path: Path, where: str, count: int) -> None:
    reader = SnapshotReader(desk.database)
    assert push(desk, tmp_path, where, count) == 9
    assert reader.current().names("local") == ()
    assert desk.registry.list_adapters("local").items == ()

    assert push(desk, tmp_path) == 0
    eventually(lambda: reader.current().names("local") == ("tone",))
    (version,) = reader.current().adapters["local", "tone"].versions
    store = LocalStore(tmp_path / "artifacts")
    assert all(len(b"".join(store.open("local", file.digest))) == file.size for file in version.manifest.files)
    with desk.database.reading() as tx:
        assert verify_chain(tx) == 2
