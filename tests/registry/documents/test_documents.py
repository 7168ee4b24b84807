"""Documents: added to a version and never changed, on both databases; another tenant's look as if there were none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.errors import Conflict, GraftworkError, InvalidRequest, NotFound
from graftwork.protocol.canonical import sha256
from graftwork.registry.documents import documents as module
from graftwork.registry.documents.document import Content, Document
from graftwork.registry.documents.documents import Documents
from graftwork.registry.idempotency import Once
from graftwork.registry.retention.deletion import Deletions

if TYPE_CHECKING:
    from support.desk import Desk


class Shelf:
    """Documents of a registry, and a short way to add one."""

    def __init__(self, desk: Desk) -> None:
        self.store = MemoryStore()
        self.documents = Documents(desk.database, self.store)
        desk.push(1)

    def content(self, text: str, name: str = "report.md", kind: str = "other") -> Content:
        self.store.put("local", sha256(text), [text.encode()])
        return Content(kind, name, "text/markdown", len(text.encode()), sha256(text), "a note")

    def add(self, text: str, name: str = "report.md", kind: str = "other", reference: str = "tone") -> str:
        document, created = self.documents.add("local", reference, self.content(text, name, kind), actor="me")
        assert created
        return document.id


@pytest.fixture
def shelf(desk: Desk) -> Shelf:
    return Shelf(desk)


def test_a_new_revision_supersedes_and_the_old_stays_readable(shelf: Shelf) -> None:
    assert [shelf.add("one"), shelf.add("x", "other.md"), shelf.add("two")] == ["1", "2", "3"]
    listed = shelf.documents.page("local", "tone").items
    assert [(one.id, one.content.name, one.revision) for one in listed] == [("2", "other.md", 1), ("3", "report.md", 2)]
    every = shelf.documents.page("local", "tone", superseded=True).items
    assert [(one.id, one.superseded) for one in every] == [("1", True), ("2", False), ("3", False)]
    old = shelf.documents.show("local", "tone", "1")
    assert b"".join(shelf.documents.content("local", old)) == b"one"


def test_the_same_again_is_the_same_document_and_writes_no_event(shelf: Shelf, desk: Desk) -> None:
    shelf.add("one")
    before = desk.registry.history("local", "tone")
    again, created = shelf.documents.add("local", "tone:1.0.0", shelf.content("one"), actor="you")
    assert (again.id, again.created_by, created) == ("1", "me", False)
    assert desk.registry.history("local", "tone") == before
    assert before[-1].kind == "document.added"
    assert before[-1].payload["digest"] == sha256("one")


def test_a_version_is_the_same_version_with_documents(shelf: Shelf, desk: Desk) -> None:
    before = desk.registry.show("local", "tone")
    shelf.add("{}", "tokenizer.json", "tokenizer")
    assert desk.registry.show("local", "tone") == before


def test_pages_lead_through_the_bundle_and_what_was_added(shelf: Shelf, desk: Desk) -> None:
    names = ["README.md", "adapter_config.json", "tokenizer.json", ".eval_results/x.yaml", "weights.bin"]
    manifest = Manifest(tuple(BundleFile(name, 1, sha256(name)) for name in names))
    desk.registry.push(
        "local", "tone", manifest, kind="lora", base="tiny", base_digest=sha256("b"), rank=1, bytes=1, account={},
        actor="me",
    )  # fmt: skip
    for number in range(3):
        shelf.add(str(number), f"{number}.md", reference="tone:1.0.1")
    found: list[Document] = []
    token = None
    while True:
        page = shelf.documents.page("local", "tone:1.0.1", page_size=2, page_token=token)
        found += page.items
        token = page.next_page_token
        if token is None:
            break
    assert [(one.source, one.content.kind, one.content.name) for one in found] == [
        ("bundle", "evaluation_report", "x.yaml"),
        ("bundle", "model_card", "README.md"),
        ("bundle", "tokenizer", "tokenizer.json"),
        *(("added", "other", f"{number}.md") for number in range(3)),
    ]
    assert [shelf.documents.show("local", "tone:1.0.1", one.id) for one in found] == found
    tokenizers = shelf.documents.page("local", "tone:1.0.1", kind="tokenizer").items
    assert [one.content.name for one in tokenizers] == ["tokenizer.json"]


def test_bytes_that_are_not_stored_or_of_another_size_are_asked_for(shelf: Shelf) -> None:
    with pytest.raises(Conflict, match="not stored"):
        shelf.documents.add("local", "tone", replace(shelf.content("x"), digest=sha256("y")), actor="me")
    with pytest.raises(Conflict, match="1 bytes, not 2"):
        shelf.documents.add("local", "tone", replace(shelf.content("x"), size=2), actor="me")


def test_what_is_refused_is_not_recorded(shelf: Shelf) -> None:
    for name, kind in (("../x", "other"), ("README.md", "model_card")):
        with pytest.raises(InvalidRequest):
            shelf.documents.add("local", "tone", shelf.content("---\n[]\n---\n", name, kind), actor="me")
    assert shelf.documents.page("local", "tone").items == ()


def test_a_key_is_used_once(shelf: Shelf) -> None:
    once = Once("key", sha256("request"))
    first = shelf.documents.add("local", "tone", shelf.content("one"), actor="me", once=once)
    shelf.add("two")
    assert first[0].superseded is False
    again, created = shelf.documents.add("local", "tone", shelf.content("one"), actor="me", once=once)
    assert (again.id, created) == ("1", True)
    with pytest.raises(Conflict, match="another request"):
        shelf.documents.add("local", "tone", shelf.content("x"), actor="me", once=Once("key", sha256("else")))


def test_a_key_is_of_what_was_added_to_a_version_that_is_there(shelf: Shelf, desk: Desk) -> None:
    once, reference = Once("key", sha256("request")), f"tone@{desk.manifest(1).digest()}"
    shelf.documents.add("local", reference, shelf.content("one"), actor="me", once=once)
    Deletions(desk.database).delete("local", "tone:1.0.0", actor="me")
    desk.push(1)
    shelf.add("two", "two.md")
    for _ in range(2):
        again, _ = shelf.documents.add("local", reference, shelf.content("one"), actor="me", once=once)
        assert (again.id, again.content.name) == ("2", "report.md")


def test_another_tenants_version_is_as_unknown_as_none(shelf: Shelf, desk: Desk) -> None:
    shelf.add("secret")
    desk.push(1, tenant="other", name="theirs")

    def said(ask: Callable[[str], object], reference: str) -> str:
        with pytest.raises(GraftworkError) as caught:
            ask(reference)
        assert isinstance(caught.value, NotFound)
        return caught.value.message.replace(reference, "REF")

    documents, content = shelf.documents, shelf.content("x")
    asks: list[Callable[[str], object]] = [
        lambda reference: documents.page("local", reference),
        lambda reference: documents.show("local", reference, "1"),
        lambda reference: documents.add("local", reference, content, actor="me"),
    ]
    for ask in asks:
        assert said(ask, "theirs") == said(ask, "nobodys")
        assert said(ask, "other/theirs") == said(ask, "other/nobodys")
    with pytest.raises(Conflict, match="not stored"):  # stored for somebody else
        documents.add("other", "theirs", content, actor="you")


def test_an_id_that_nothing_has_is_not_found(shelf: Shelf) -> None:
    shelf.add("one")
    for document in ("0", "2", "bundle-1", "bundle-9", "-1", "01", "x", "", "1" * 30):
        with pytest.raises(NotFound):
            shelf.documents.show("local", "tone", document)


def test_writers_at_once_get_numbers_and_revisions_of_their_own(shelf: Shelf) -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda number: shelf.add(f"text {number}"), range(16)))
    assert sorted(map(int, ids)) == list(range(1, 17))
    every = shelf.documents.page("local", "tone", superseded=True).items
    assert [one.revision for one in every] == list(range(1, 17))


def test_there_is_a_most_that_a_version_has(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENTS", 1)
    shelf.add("one")
    with pytest.raises(Conflict, match="the most"):
        shelf.add("two")


def test_the_database_refuses_to_change_or_remove_one(shelf: Shelf, desk: Desk) -> None:
    shelf.add("one")
    for change in ("UPDATE documents SET note = ''", "DELETE FROM documents", "DELETE FROM documents WHERE number = 1"):
        with pytest.raises(IntegrityError), desk.database.transaction() as tx:
            tx.exec_driver_sql(change)
