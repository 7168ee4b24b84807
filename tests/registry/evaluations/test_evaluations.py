"""Evaluations are added to and never changed, under consecutive numbers, whoever adds."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from graftwork.access.events import verify_chain
from graftwork.db.schema import metrics
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.protocol.canonical import canonical, sha256
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.cards.measured import measured_of
from graftwork.registry.evaluations import evaluations
from graftwork.registry.idempotency import Once
from graftwork.registry.retention.roots import wanted
from graftwork.registry.search.search import Searches
from support.evaluations import ONE_OF_EACH, put, task
from support.scale import times
from support.threads import at_once

if TYPE_CHECKING:
    from registry.evaluations.conftest import Book

PROCESSES = 3
ADDS = times(4, 40)  # of each process

WORKER = """
import json, sys
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.db import Database
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.evaluations.evaluations import Evaluations

url, raw, adds = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Database(url) as database:
    evaluations, body = Evaluations(database, MemoryStore()), EvaluationBody.read(raw.encode())
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps([evaluations.add("local", "tone:1.0.0", body, actor="me").number for _ in range(adds)]))
"""


def test_each_family_is_kept_and_listed_newest_first_page_by_page(book: Book) -> None:
    for body in ONE_OF_EACH.values():
        book.add(**body)
    pages: list[list[tuple[int, str]]] = []
    token: str | None = None
    while not pages or token:
        page = book.evaluations.list("local", "tone", page_size=3, page_token=token)
        pages.append([(one.number, one.body["family"]) for one in page.items])
        token = page.next_page_token
    assert pages == [[(4, "business"), (3, "drift"), (2, "inference")], [(1, "task")]]
    assert dict(book.evaluations.show("local", "tone", 3).body) == ONE_OF_EACH["drift"]
    only = book.evaluations.list("local", "tone", family="inference").items
    assert [one.number for one in only] == [2]
    assert [one.number for one in book.evaluations.list("local", "tone", name="shop").items] == [4]
    assert book.evaluations.list("local", "tone", name="nope").items == ()


def test_numbers_can_be_found_by_name(book: Book) -> None:
    book.add(metrics=[{"name": "accuracy", "value": 0.5}, {"name": "huge", "value": 1.7e308}])
    with book.desk.database.reading() as tx:
        found = tx.execute(select(metrics.c.number, metrics.c.name, metrics.c.value).order_by(metrics.c.name))
        assert [tuple(row) for row in found] == [(1, "accuracy", 0.5), (1, "huge", 1.7e308)]


def test_each_is_an_event_that_says_what_was_written(book: Book) -> None:
    made = book.add()
    event = book.desk.registry.history("local", "tone")[-1]
    assert (event.kind, event.actor) == ("evaluation.added", "me")
    assert event.payload["evaluation"] == sha256(canonical(dict(made.body), what="evaluation"))
    assert (event.payload["version"], event.payload["number"]) == ("1.0.0", 1)


def test_the_database_refuses_to_change_them(book: Book) -> None:
    book.add()
    for change in ("UPDATE evaluations SET body = '{}'", "UPDATE metrics SET value = 1"):
        with pytest.raises(IntegrityError), book.desk.database.transaction() as tx:
            tx.execute(text(change))


def test_a_correction_is_a_new_one_that_names_the_one_before(book: Book) -> None:
    book.add(value=0.5)
    book.add(value=0.6, supersedes=1)
    assert book.evaluations.show("local", "tone", 1).superseded_by == 2
    assert book.evaluations.show("local", "tone", 2).superseded_by is None
    for wrong, said in ((1, "superseded already, by 2"), (9, "no evaluation 9"), (3, "no evaluation 3")):
        with pytest.raises(Conflict, match=said):
            book.add(value=0.7, supersedes=wrong)
    with pytest.raises(Conflict, match="of the family task"):
        book.add(**{**ONE_OF_EACH["business"], "supersedes": 2})
    assert [event.kind for event in book.desk.registry.history("local", "tone")].count("evaluation.added") == 2


def test_what_was_measured_on_another_base_is_refused(book: Book) -> None:
    base = book.desk.registry.show("local", "tone").base_digest
    assert book.add(base_digest=base).number == 1
    with pytest.raises(Conflict, match="measured on another"):
        book.add(base_digest="sha256:" + "0" * 64)


def test_files_must_be_stored_under_the_tenant_before(book: Book) -> None:
    others = put(book.store, b"theirs", tenant="other")
    with pytest.raises(Conflict, match=r"reports\.0\.digest"):
        book.add(reports=[{"name": "r", "digest": others}])
    with pytest.raises(Conflict, match=r"examples\.digest"):
        book.add(examples={"digest": others})
    with pytest.raises(InvalidRequest, match="'f1', which is none"):
        book.add(examples=book.examples({"a": 1, "b": 0}, "f1"))
    ours = put(book.store, b"ours")
    book.add(reports=[{"name": "r", "digest": ours}], examples=(examples := book.examples({"a": 1})))
    with book.desk.database.reading() as tx:  # so that no collection removes them
        assert {ours, examples["digest"]} <= wanted(tx, "local")
        assert others not in wanted(tx, "local") | wanted(tx, "other")


def test_another_tenants_and_unknown_versions_look_alike(book: Book) -> None:
    book.desk.push(2, tenant="other", name="theirs")
    for reference in ("theirs", "other/theirs", "tone:9.9.9", "tone@champion", "nobody/tone"):
        with pytest.raises(NotFound):
            book.add(reference)
        with pytest.raises(NotFound):
            book.evaluations.list("local", reference)
        with pytest.raises(NotFound):
            book.evaluations.compare("local", ["tone", reference])
    book.add("theirs", tenant="other")
    with pytest.raises(NotFound):
        book.evaluations.show("local", "tone", 1)


def test_sizes_at_the_limit_are_kept_and_over_it_refused(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    room = evaluations.MAX_BYTES - len(canonical(task(conditions={"x": ""}), what=""))
    book.add(conditions={"x": "y" * room})
    with pytest.raises(InvalidRequest, match="longer than"):
        book.add(conditions={"x": "y" * (room + 1)})
    with pytest.raises(InvalidRequest, match="beyond 2"):
        book.add(conditions={"x": 2**60})
    monkeypatch.setattr(evaluations, "MAX_OF_A_VERSION", 2)
    book.add()
    with pytest.raises(Conflict, match="the most that a version may have"):
        book.add()


def test_the_same_request_again_is_one_evaluation(book: Book) -> None:
    body = EvaluationBody.read(json.dumps(task()).encode())
    once = Once("key", "sha256:" + "1" * 64)
    made = at_once(lambda _: book.evaluations.add("local", "tone", body, actor="me", once=once), 8)
    assert {one.number for one in made} == {1}
    with pytest.raises(Conflict, match="used for another request"):
        book.evaluations.add("local", "tone", body, actor="me", once=Once("key", "sha256:" + "2" * 64))


def test_processes_that_add_at_once_get_consecutive_numbers(book: Book) -> None:
    arguments = [sys.executable, "-W", "error", "-c", WORKER, book.desk.url, json.dumps(task()), str(ADDS)]
    with ExitStack() as stack:
        start = subprocess.Popen[str]
        workers = [
            stack.enter_context(start(arguments, stdin=-1, stdout=-1, stderr=-1, text=True)) for _ in range(PROCESSES)
        ]
        for process in workers:
            assert process.stdout is not None
            process.stdout.readline()  # all are ready before any starts
        outputs = [process.communicate("go\n", timeout=120) for process in workers]
        assert [process.returncode for process in workers] == [0] * PROCESSES, outputs
    numbers = [number for output, _ in outputs for number in json.loads(output)]
    assert sorted(numbers) == list(range(1, PROCESSES * ADDS + 1))
    with book.desk.database.reading() as tx:
        verify_chain(tx)


def test_what_is_superseded_is_no_number_of_the_version_any_more(book: Book) -> None:
    wrong = book.add(value=0.99)
    searches = Searches(book.desk.database)
    assert len(searches.find("local", "metrics.accuracy > 0.9", sort="metrics.accuracy desc").items) == 1
    book.add(value=0.5, metric="f1", name="other", supersedes=wrong.number)
    assert searches.find("local", "metrics.accuracy > 0.9").items == ()
    assert searches.find("local", "has metrics.accuracy").items == ()
    assert searches.find("local", "", sort="metrics.accuracy desc").items == ()
    with book.desk.database.reading() as tx:
        measured, number = measured_of(tx, book.desk.registry.show("local", "tone:1.0.0"))
    assert ([one.name for one in measured], number) == (["other"], 2)
