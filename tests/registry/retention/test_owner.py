"""Owner: a database that a store does not belong to removes nothing from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graftwork.artifacts.stores.local import LocalStore
from graftwork.errors import Conflict, Unavailable
from graftwork.registry.backup import back_up, restore
from support.desk import Desk
from support.yard import Yard


@pytest.fixture
def beside(yard: Yard, make_desk: Callable[[], Desk]) -> Yard:
    """Another database, empty so far, on the same store, to which a version was pushed."""
    yard.push("tone", b"ours")
    return Yard(make_desk(), yard.root)


def test_an_empty_database_empties_no_store(yard: Yard, beside: Yard) -> None:
    for attempt in (beside.look, beside.collect):
        with pytest.raises(Conflict, match="another database"):
            attempt()
    yard.check()
    assert yard.look().items == ()


def test_one_that_pushed_there_too_is_refused(yard: Yard, beside: Yard) -> None:
    beside.push("tone", b"theirs")  # its config is the same blob
    with pytest.raises(Conflict, match="another database"):
        beside.collect()
    yard.check()


def test_one_that_was_restored_to_before_the_last_collection_is_refused(
    yard: Yard, beside: Yard, tmp_path: Path
) -> None:
    back_up(yard.desk.database, yard.store, tmp_path / "backup", open_blobs=LocalStore)
    url = f"sqlite:///{tmp_path / 'restored.db'}"
    restore(tmp_path / "backup", LocalStore(tmp_path / "backup" / "blobs"), url, yard.store)
    restored = Yard(Desk(url), yard.root)
    assert restored.look().items == ()  # the same log
    yard.push("tone", b"gone")
    yard.delete("tone:1.0.1")
    yard.push("tone", b"later")
    yard.collect()
    with pytest.raises(Conflict, match="later state"):
        restored.collect()
    restored.desk.database.close()
    yard.check()


def test_whoever_removes_the_note_lets_another_database_have_the_store(yard: Yard, beside: Yard) -> None:
    (yard.root / "artifacts" / "local" / "note").unlink()
    beside.push("tone", b"theirs")
    assert [item.digest for item in beside.collect().items if item.kind == "blob"]
    beside.check()
    with pytest.raises(Conflict, match="another database"):
        yard.collect()


def test_a_push_does_not_fail_for_it(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(tenant: str) -> str | None:
        raise Unavailable("The store is away.")

    monkeypatch.setattr(yard.store, "note", away)
    assert yard.push("tone", b"ours").semver == "1.0.0"
    monkeypatch.undo()
    yard.push("tone", b"more")
    assert yard.store.note("local")
