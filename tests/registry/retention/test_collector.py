"""Collector: what nobody wants goes, from everywhere, and nothing else; beside pushes, and though it is killed."""

from __future__ import annotations

import json
import os
import random
import threading
from typing import TYPE_CHECKING

import pytest

from graftwork.access.events import Event, verify_chain
from graftwork.db.schema import signatures
from graftwork.errors import Conflict, GraftworkError, Unavailable
from graftwork.models.base_identity import BaseIdentity
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.bases import Bases
from graftwork.registry.documents.document import Content
from graftwork.registry.documents.documents import Documents
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.registry.retention import collection, collector
from graftwork.registry.retention.rules import EVERY, Rules
from graftwork.registry.retention.sweep import Bounds, Item
from support.evaluations import task
from support.pushes import digest_of, manifest_of
from support.scale import times
from support.yard import Yard

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHTS = b"weights of one"


def told(items: Sequence[Item]) -> list[tuple[str, str]]:
    return sorted((item.kind, item.name or "") for item in items)


def test_a_deleted_versions_bytes_are_gone_from_everywhere_and_the_report_says_so(yard: Yard) -> None:
    yard.push("tone", WEIGHTS)
    yard.push("voice", b"other weights")  # its config is the same blob
    digest = digest_of(WEIGHTS)
    damaged = yard.spoil(WEIGHTS)
    yard.upload(WEIGHTS)
    forms = yard.root / "forms" / "local"
    forms.mkdir(parents=True)
    (forms / "damaged.form").write_bytes(WEIGHTS)
    with yard.uploads.continued("local", digest, 0) as file:
        file.write(WEIGHTS)
    assert yard.files(WEIGHTS) == ["artifacts", "bundles", "forms", "uploads"]
    assert yard.files(damaged) == ["artifacts"]
    yard.delete("tone:1.0.0")
    looked = yard.look()
    assert yard.collect() == looked
    assert told(looked.items) == [
        ("blob", "tone:1.0.0"),
        ("copy", "tone:1.0.0"),
        ("form", ""),
        ("quarantined", "tone:1.0.0"),
        ("upload", ""),
    ]
    assert looked.erased == ("tone:1.0.0",)
    assert yard.files(WEIGHTS) == yard.files(damaged) == []
    yard.check()
    assert yard.look().items == ()
    with yard.desk.database.reading() as tx:
        verify_chain(tx)


def test_a_blob_that_another_version_has_stays(yard: Yard) -> None:
    yard.push("tone", WEIGHTS)
    yard.push("voice", WEIGHTS)
    yard.delete("tone:1.0.0")
    assert yard.collect().items == ()  # copies are the same, too
    yard.delete("voice:1.0.0")
    assert {item.kind for item in yard.collect().items} == {"blob", "copy"}
    assert yard.files(WEIGHTS) == []


def test_the_same_bytes_may_come_back(yard: Yard) -> None:
    yard.push("tone", WEIGHTS)
    yard.delete("tone:1.0.0")
    yard.collect()
    assert yard.push("tone", WEIGHTS).semver == "1.0.1"
    assert yard.collect().items == ()
    yard.check()


def test_what_is_young_stays_and_is_counted(yard: Yard) -> None:
    yard.upload(WEIGHTS)
    yard.push("tone", b"other")
    yard.delete("tone:1.0.0")
    done = yard.collect(Bounds())
    assert told(done.items) == [("copy", "tone:1.0.0")]  # nobody tries a version that was deleted
    assert (len(done.young), done.erased) == (3, ())
    for path in yard.root.rglob("*"):
        if path.is_file():
            os.utime(path, (0, 0))
    assert told(yard.collect(Bounds()).items) == [("blob", ""), ("blob", "tone:1.0.0"), ("blob", "tone:1.0.0")]


def test_quarantined_damage_of_a_version_stays_for_its_time(yard: Yard) -> None:
    yard.push("tone", WEIGHTS)
    yard.spoil(WEIGHTS)
    yard.upload(WEIGHTS)
    assert yard.collect(Bounds(older_than_s=0)).items == ()
    assert told(yard.collect(Bounds(older_than_s=0, quarantine_s=0)).items) == [("quarantined", "")]
    yard.check()


def test_an_upload_under_way_stays(yard: Yard) -> None:
    with yard.uploads.continued("local", digest_of(WEIGHTS), 0) as file:
        file.write(b"weigh")
        file.flush()
        assert [item.kind for item in yard.look().items] == ["upload"]
        assert yard.collect().items == ()
    assert yard.uploads.offset("local", digest_of(WEIGHTS)) == 5
    assert [item.kind for item in yard.collect().items] == ["upload"]


def test_a_copy_that_somebody_reads_stays(yard: Yard) -> None:
    version = yard.push("tone", WEIGHTS)
    yard.delete("tone:1.0.0")
    with yard.copies.lease("local", version.manifest):
        assert "copy" not in {item.kind for item in yard.collect().items}
    assert yard.collect().erased == ("tone:1.0.0",)


def test_versions_go_by_the_rules_with_their_bytes(yard: Yard) -> None:
    for number in range(4):
        yard.push("tone", bytes([number]) * 8)
    yard.desk.promote("tone:1.0.0")
    yard.retention.set("local", EVERY, Rules(keep_last=1), actor="me")
    looked, done = yard.look(), yard.collect()
    assert looked == done
    assert [item.name for item in done.items if item.kind == "version"] == ["tone:1.0.1", "tone:1.0.2"]
    assert done.erased == ("tone:1.0.1", "tone:1.0.2")
    last = [event for event in yard.desk.registry.history("local", "tone") if event.kind == "version.deleted"]
    assert last[0].payload["reason"] == "retention: not of the last 1, and not younger than 0 days"
    yard.check()


def test_another_tenants_bytes_are_not_looked_at(yard: Yard) -> None:
    yard.store.put("acme", digest_of(WEIGHTS), [WEIGHTS])
    assert yard.collect().items == ()
    assert yard.store.has("acme", digest_of(WEIGHTS)) == len(WEIGHTS)


def test_of_two_collections_the_older_one_stops(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.upload(WEIGHTS)
    real = collection.begin

    def overtaken(*args: object, **kwargs: object) -> Event:
        begun = real(*args, **kwargs)  # type: ignore[arg-type]
        real(*args, **kwargs)  # type: ignore[arg-type]
        return begun

    monkeypatch.setattr(collection, "begin", overtaken)
    with pytest.raises(Conflict, match="Another collection"):
        yard.collect()
    assert yard.files(WEIGHTS) == ["artifacts"]
    monkeypatch.setattr(collection, "begin", real)
    assert len(yard.collect().items) == 2


def test_a_collection_that_was_held_up_removes_nothing_more(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.upload(WEIGHTS)
    monkeypatch.setattr(collector, "BATCH_S", -1.0)
    with pytest.raises(Unavailable, match="held up"):
        yard.collect()
    assert yard.files(WEIGHTS) == ["artifacts"]


def test_a_push_that_looked_before_a_collection_and_registers_after_it_is_refused(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.push("voice", b"other")  # keeps the config
    real = yard.desk.registry.push

    def late(*args: object, **kwargs: object) -> object:
        yard.collect()
        return real(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(yard.desk.registry, "push", late)
    with pytest.raises(Conflict, match="Upload these blobs"):
        yard.push("tone", WEIGHTS)
    monkeypatch.setattr(yard.desk.registry, "push", real)
    assert yard.push("tone", WEIGHTS).semver == "1.0.0"
    yard.check()


def test_a_push_that_comes_before_a_batch_keeps_its_blobs(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.upload(WEIGHTS)
    real = collector.Collector._remove_blobs

    def after_a_push(self: collector.Collector, tenant: str, begun: int, items: Sequence[Item]) -> object:
        assert len(items) == 2
        yard.push("tone", WEIGHTS)
        return real(self, tenant, begun, items)

    monkeypatch.setattr(collector.Collector, "_remove_blobs", after_a_push)
    assert yard.collect().items == ()
    yard.check()


def test_a_push_that_comes_as_the_first_blobs_go_keeps_its_own(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.upload(WEIGHTS)
    monkeypatch.setattr(collector, "BATCH", 1)
    real, pushed = yard.desk.database.transaction, list[str]()

    def before_a_batch() -> object:
        if yard.desk.registry.position() and not pushed and _is_open(yard):
            pushed.append("once")
            pushed.append(yard.push("tone", WEIGHTS).label)
        return real()

    monkeypatch.setattr(yard.desk.database, "transaction", before_a_batch)
    assert yard.collect().items == ()
    assert pushed == ["once", "tone:1.0.0"]
    yard.check()


def _is_open(yard: Yard) -> bool:
    with yard.desk.database.reading() as tx:
        return collection.collected_since(tx, "local", yard.desk.registry.position())


def test_collections_in_a_loop_beside_pushes_lose_nothing(yard: Yard) -> None:
    over, failures = threading.Event(), list[BaseException]()

    def collecting() -> None:
        try:
            while not over.is_set():
                yard.collect()
        except BaseException as error:
            failures.append(error)

    def pushing(number: int) -> None:
        source = random.Random(number)
        for _ in range(times(6, 60)):
            weights = bytes([source.randrange(4)]) * 100  # often the same, so that blobs are there and are not
            try:
                version = yard.push(f"tone-{number}", weights)
                if source.random() < 0.7:
                    yard.delete(f"tone-{number}:{version.semver}")
            except GraftworkError:
                pass  # it has to send its files again; that nothing is half there is what counts

    threads = [threading.Thread(target=pushing, args=(number,)) for number in range(3)]
    cleaner = threading.Thread(target=collecting)
    for thread in (*threads, cleaner):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    cleaner.join()
    assert failures == []
    yard.check()
    yard.collect()
    yard.check()
    assert yard.look().items == ()


def test_files_of_documents_signatures_evaluations_and_bases_stay_as_long_as_they_are_wanted(yard: Yard) -> None:
    version, database, store = yard.push("tone", WEIGHTS), yard.desk.database, yard.store
    report, scored, signed, base = (put(yard, data) for data in (b"report", b"scored", b"signed", b"base"))
    Documents(database, store).add(
        "local", "tone", Content("other", "report.md", "text/markdown", len(b"report"), report, ""), actor="me"
    )
    body = EvaluationBody.read(json.dumps(task(reports=[{"name": "scored", "digest": scored}])).encode())
    Evaluations(database, store).add("local", "tone", body, actor="me")
    with database.transaction() as tx:
        of = {"tenant": "local", "adapter": "tone", "sequence": version.sequence, "number": 1}
        key = {"fingerprint": signed, "algorithm": "ed25519", "public_key": "", "bundle": signed, "size": 6}
        tx.execute(signatures.insert().values(**of, **key, created_at="then", created_by="me"))
    tiny = BaseIdentity("org/tiny", "main", "LlamaForCausalLM", signed, base)
    Bases(database).register("local", "tiny", tiny, manifest=manifest_of({"config.json": b"base"}), actor="me")
    assert yard.collect().items == ()
    yard.delete("tone:1.0.0")
    yard.collect()
    left = {digest for digest in (report, scored, signed, base) if store.has("local", digest) is not None}
    assert left == {base}


def put(yard: Yard, data: bytes) -> str:
    yard.store.put("local", digest_of(data), [data])
    return digest_of(data)
