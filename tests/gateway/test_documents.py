"""The doors of documents: bytes to be saved and never to be shown, ranges, cards, bills; and of signatures."""

from __future__ import annotations

import base64
import gc
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from huggingface_hub import ModelCard
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from graftwork.artifacts.digest import digest_of_file
from graftwork.artifacts.stores.local import LocalStore
from graftwork.errors import Conflict, Damaged, InvalidRequest, NotFound, Refused
from graftwork.gateway.download import download
from graftwork.settings import Settings
from support.keys import KEYS
from support.served import Served, serving

OF = "/api/v1/adapters/alpha/versions/1.0.0"
PAGE = b"<script>alert(1)</script>"


@pytest.fixture
def alpha(served: Served) -> Served:
    served.push("alpha")
    return served


def add(served: Served, data: bytes, name: str = "page.html", **more: Any) -> dict[str, Any]:
    file = served.folder / "file"
    file.write_bytes(data)
    return served.client.documents.add("alpha", file, kind="other", name=name, **more)


def read(served: Served, document: dict[str, Any], **headers: str) -> httpx.Response:
    return served.http.get(f"{OF}/documents/{document['id']}/content", headers=headers)


def test_added_listed_read_and_added_again(alpha: Served, tmp_path: Path) -> None:
    made = add(alpha, b"# Log\n", "log.md", note="first run")
    assert made["created"] and not add(alpha, b"# Log\n", "log.md", note="first run")["created"]
    assert (made["media_type"], made["revision"], made["created_by"]) == ("text/markdown", 1, "local")
    assert [one["id"] for one in alpha.client.documents.list("alpha")] == ["1"]
    assert alpha.client.documents.get("alpha:1.0.0", "1")["note"] == "first run"
    with alpha.client.documents.content("alpha", "1") as chunks:
        assert b"".join(chunks) == b"# Log\n"
    assert alpha.client.history("alpha")[-1]["kind"] == "document.added"


def test_a_page_of_somebodys_is_bytes_to_a_browser(alpha: Served) -> None:
    for media_type in ("text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript"):
        answer = read(alpha, add(alpha, PAGE, media_type=media_type))
        assert answer.content == PAGE
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
        assert "sandbox" in answer.headers["content-security-policy"]
    assert alpha.client.documents.list("alpha")[-1]["media_type"] == "text/javascript"


def test_a_name_cannot_leave_its_header(alpha: Served) -> None:
    answer = read(alpha, add(alpha, b"x", 'Größe "1"; a=b.md'))
    assert answer.headers["content-disposition"] == (
        "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%221%22%3B%20a%3Db.md"
    )


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=2-", 2, 2_499_999), ("bytes=-3", 2_499_997, 2_499_999), ("bytes=1048570-1048580",
     1_048_570, 1_048_580), ("bytes=5-99999999", 5, 2_499_999), ("bytes=-99999999", 0, 2_499_999)],
)  # fmt: skip
def test_a_range_is_that_part(alpha: Served, asked: str, first: int, last: int) -> None:
    data = bytes(range(250)) * 10_000
    answer = read(alpha, add(alpha, data, "large.bin"), range=asked)
    assert (answer.status_code, answer.headers["content-range"]) == (206, f"bytes {first}-{last}/2500000")
    assert answer.content == data[first : last + 1]


def test_other_ranges_are_the_whole_or_refused(alpha: Served) -> None:
    document = add(alpha, b"0123456789")
    whole = read(alpha, document)
    assert (whole.status_code, whole.headers["accept-ranges"], whole.content) == (200, "bytes", b"0123456789")
    etag = whole.headers["etag"]
    for asked in ("bytes=", "bytes=-", "bytes=3-1", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b"):
        assert read(alpha, document, range=asked).status_code == 200
    for asked in ("bytes=10-", "bytes=-0", "bytes=99-100"):
        answer = read(alpha, document, range=asked)
        assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */10")
    assert read(alpha, document, **{"range": "bytes=0-1", "if-range": etag}).status_code == 206
    assert read(alpha, document, **{"range": "bytes=0-1", "if-range": '"other"'}).status_code == 200
    assert read(alpha, document, **{"if-none-match": etag}).status_code == 304
    assert read(alpha, add(alpha, b"", "empty"), range="bytes=0-").status_code == 416


async def test_a_document_that_nobody_reads_leaves_no_file_open(tmp_path: Path) -> None:
    scope = {"type": "http", "method": "GET", "headers": [], "asgi": {"spec_version": "2.4"}}
    told: dict[str, Any] = {
        "size": 1,
        "digest": "sha256:0",
        "name": "x",
        "media_type": "text/plain",
        "folder": tmp_path,
    }
    response = await download(Request(scope), iter([b"x"]), **told)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        raise OSError("the client has gone")

    with pytest.raises(ClientDisconnect):
        await response(scope, receive, send)
    del response
    gc.collect()  # a file that only the collector closes is a warning, which fails


def test_damaged_bytes_are_an_error_and_not_half_an_answer(alpha: Served) -> None:
    document = add(alpha, b"x" * 3_000_000)
    store = alpha.app.state.services.store
    assert isinstance(store, LocalStore)
    path = store._path("local", document["digest"])
    path.write_bytes(b"y" + path.read_bytes()[1:])
    for headers in ({}, {"range": "bytes=5-9"}):
        answer = read(alpha, document, **headers)
        assert (answer.status_code, answer.json()["code"]) == (500, "damaged")


def test_what_was_in_the_bundle_is_listed_and_read(served: Served) -> None:
    folder = served.folder / "lora-0"
    served.push("other")
    (folder / "README.md").write_text("# Mine\n")
    served.client.push(folder, "alpha")
    [readme] = served.client.documents.list("alpha")
    assert (readme["source"], readme["kind"]) == ("bundle", "model_card")
    assert read(served, readme).text == "# Mine\n"


def test_wrong_requests_say_what_is_wrong(alpha: Served) -> None:
    good = {"kind": "other", "name": "x", "size": 1, "digest": "sha256:" + "0" * 64}
    for change, status in (
        ({}, 409), ({"kind": "weights"}, 400), ({"name": "../x"}, 400), ({"name": "a\u0000"}, 400), ({"size": -1}, 400),
        ({"size": 1 << 40}, 400), ({"digest": "x"}, 400), ({"more": 1}, 400), ({"note": "x" * 3000}, 400),
    ):  # fmt: skip
        assert alpha.http.post(f"{OF}/documents", json={**good, **change}).status_code == status, change
    for path, status in (
        ("/documents?page_token=x", 400), ("/documents?page_size=0", 400), ("/documents?kind=x", 400),
        ("/documents/7", 404), ("/documents/..%2F..", 404), ("/signatures/1", 404), ("/signatures/0", 400),
        ("/signatures/x", 400),
    ):  # fmt: skip
        assert alpha.http.get(OF + path).status_code == status, path
    for place in ("adapters/none/versions/1.0.0", "adapters/alpha/versions/9.0.0", "tenants/other/" + OF[8:]):
        for door in ("documents", "card", "bom", "signatures"):
            assert alpha.http.get(f"/api/v1/{place}/{door}").status_code == 404
    assert alpha.client.documents.list("alpha") == []


def test_a_file_that_changes_while_it_is_sent_is_not_added(alpha: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def digest_then_change(path: Path) -> str:
        digest = digest_of_file(path)
        path.write_bytes(b"changed" * 100)
        return digest

    monkeypatch.setattr("graftwork.client.documents.digest_of_file", digest_then_change)
    with pytest.raises(InvalidRequest, match="do not match their digest"):
        add(alpha, b"as it was")
    assert alpha.client.documents.list("alpha") == []


def test_a_key_is_used_once(alpha: Served) -> None:
    first = add(alpha, b"one", idempotency_key="k")
    add(alpha, b"two")
    assert add(alpha, b"one", idempotency_key="k")["id"] == first["id"]
    with pytest.raises(Conflict):
        add(alpha, b"three", idempotency_key="k")


def test_a_card_is_edited_and_generated_around_what_was_written(alpha: Served) -> None:
    first = ModelCard(alpha.client.documents.card("alpha"))
    assert (first.data.library_name, first.data.pipeline_tag) == ("peft", "text-generation")
    assert "| alpha | 8 |" in first.text
    made = alpha.client.documents.edit_card("alpha", f"---\nlicense: mit\n---\n{first.text}\nBe kind.\n")
    assert (made["kind"], made["name"], made["created"]) == ("model_card", "README.md", True)
    card = ModelCard(alpha.client.documents.card("alpha"))
    assert card.data.license == "mit"
    assert card.text.count("| alpha | 8 |") == 1 and card.text.endswith("Be kind.\n")
    with pytest.raises(InvalidRequest, match="front matter"):
        alpha.client.documents.edit_card("alpha", "---\n[]\n---\n")


def test_evaluations_are_in_card_and_bill(alpha: Served) -> None:
    for value in (0.5, 0.75):
        measured = {"name": "accuracy", "value": value}
        body = {"family": "task", "name": "tickets", "split": "test", "dataset": {"id": "acme/tickets"}}
        alpha.client.evaluations.add("alpha", {**body, "metrics": [measured]})
    [result] = ModelCard(alpha.client.documents.card("alpha")).data.eval_results or []
    assert (result.dataset_name, result.metric_type, result.metric_value) == ("tickets", "accuracy", 0.75)
    answer = alpha.http.get(f"{OF}/bom")
    assert answer.headers["content-type"] == "application/vnd.cyclonedx+json"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(answer.text) is None
    assert answer.json()["version"] == 3


def test_signed_here_checked_there_and_verified_anywhere(alpha: Served) -> None:
    signatures, mine = alpha.client.signatures, KEYS["ed25519"]
    made = signatures.sign("alpha", mine.private)
    assert made["created"] and made["algorithm"] == "ed25519"
    assert "PRIVATE" not in json.dumps(signatures.list("alpha"))
    assert [one["state"] for one in signatures.verify("alpha", mine.public)] == ["valid"]
    assert [one["state"] for one in signatures.verify("alpha", KEYS["p256"].public)] == ["other key"]
    report = alpha.client.verify("alpha", public_key=KEYS["p256"].public)
    assert (report["problems"], report["unsigned"]) == ([], ["alpha:1.0.0"])
    again = signatures.add("alpha", signatures.bundle("alpha", made["number"]), mine.public)
    assert not again["created"] and again["number"] == made["number"]


def test_a_signature_of_other_files_is_refused_here_and_there(alpha: Served) -> None:
    alpha.push("beta", seed=2)
    made = alpha.client.signatures.sign("alpha", KEYS["p256"].private, folder=alpha.folder / "lora-0")
    bundle = alpha.client.signatures.bundle("alpha", 1)
    with pytest.raises(Refused, match="other files"):
        alpha.client.signatures.add("beta", bundle, KEYS["p256"].public)
    body = {"bundle": made["bundle"], "public_key": KEYS["p256"].public.decode()}
    answer = alpha.http.post("/api/v1/adapters/beta/versions/1.0.0/signatures", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    assert alpha.http.post(f"{OF}/signatures", json=body | {"public_key": "x"}).status_code == 400
    with pytest.raises(Refused, match="nothing was signed"):
        alpha.client.signatures.sign("alpha", KEYS["p256"].private, folder=alpha.folder / "lora-2")
    with pytest.raises(NotFound):
        alpha.client.signatures.sign("gamma", KEYS["p256"].private)


def test_a_stored_signature_that_was_changed_is_invalid(alpha: Served) -> None:
    made = alpha.client.signatures.sign("alpha", KEYS["p256"].private)
    path = alpha.app.state.services.store._path("local", made["bundle"])
    path.write_bytes(path.read_bytes().replace(b'"sig": "', b'"sig": "AA'))
    [checked] = alpha.client.verify("alpha", signatures=True)["signatures"]
    assert (checked["state"], checked["version"]) == ("invalid", "alpha:1.0.0")
    assert made["bundle"] in checked["reason"]


def test_documents_are_sealed_where_files_are(settings: Settings, tmp_path: Path) -> None:
    keyring = tmp_path / "keys.json"
    keyring.write_text(json.dumps({"current": "a", "keys": {"a": base64.b64encode(b"k" * 32).decode()}, "tenants": {}}))
    with serving(settings.model_copy(update={"artifacts_keyring": keyring}), tmp_path) as served:
        served.push("alpha")
        assert read(served, add(served, PAGE)).content == PAGE
        assert all(PAGE not in path.read_bytes() for path in settings.home.rglob("*") if path.is_file())


def test_a_registry_that_lies_about_files_or_keys_is_noticed(alpha: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    alpha.client.signatures.sign("alpha", KEYS["ed25519"].private)
    beta = alpha.push("beta", seed=2)
    wire = alpha.client.signatures._wire
    tell = wire.json

    def lie(method: str, path: str, **options: Any) -> dict[str, Any]:
        said = tell(method, path, **options)
        if "manifest" in said:
            return {**said, "manifest": beta["manifest"]}
        return {"signatures": [{**one, "public_key": "none"} for one in said["signatures"]]}

    monkeypatch.setattr(wire, "json", lie)
    with pytest.raises(Damaged, match="not those of its digest"):
        alpha.client.signatures.sign("alpha", KEYS["ed25519"].private)
    [by_key] = alpha.client.signatures.verify("alpha", KEYS["ed25519"].public)
    [by_record] = alpha.client.signatures.verify("alpha")
    assert (by_key["state"], by_record["state"]) == ("invalid", "invalid")
