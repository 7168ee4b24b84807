"""Base models over HTTP and through the client: pushed, listed, pulled; broken off, damaged, in the way."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import load_file, save_file

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores.local import LocalStore
from graftwork.client import Client
from graftwork.client.downloads import download
from graftwork.client.folders import partial
from graftwork.client.wire import Wire
from graftwork.errors import Conflict, Damaged, InvalidRequest, NotFound, Refused, Unavailable
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline
from support.fixtures import Tiny
from support.served import Served

FILE = {"path": "x", "size": 1, "digest": "sha256:" + "a" * 64}


@pytest.fixture
def sharded(tiny: Tiny, tmp_path: Path) -> Path:
    """The tiny base in two shards, with files beside it that are none of a base's."""
    folder = Path(shutil.copytree(tiny.base.folder, tmp_path / "Tiny.Base"))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, folder / file, {"format": "pt"})
    weight_map = {name: file for file, part in parts.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "notes.md").write_text("mine")
    return folder


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _digests(bundle: dict[str, Any]) -> list[str]:
    return [file["digest"] for file in bundle["manifest"]["files"]]


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_sharded_base_goes_there_and_back(served: Served, tiny: Tiny, sharded: Path, tmp_path: Path) -> None:
    pushed = served.client.bases.push(sharded, source="org/tiny", revision="main")
    assert (pushed["name"], pushed["source"], pushed["revision"]) == ("tiny-base", "org/tiny", "main")
    assert pushed["weights_digest"] == tiny.outline.weights_digest  # whatever shards it came in
    assert served.client.bases.list() == [{key: value for key, value in pushed.items() if key != "manifest"}]
    target = tmp_path / "pulled"
    assert served.client.bases.pull(f"tiny-base@{tiny.outline.weights_digest}", target) == pushed
    wanted = files_of(sharded)
    assert files_of(target) == {name: wanted[name] for name in wanted if not name.endswith((".bin", ".md"))}
    assert served.client.bases.pull("tiny-base", target) == pushed  # it is there already
    assert hidden(tmp_path) == []


def test_a_base_in_other_shards_is_the_same_base(served: Served, tiny: Tiny, sharded: Path) -> None:
    first = served.client.bases.push(sharded, name="tiny")
    again = served.client.bases.push(tiny.base.folder, name="tiny")
    assert (again["digest"], again["manifest"]) == (first["digest"], first["manifest"])


def test_a_push_of_an_adapter_records_its_base(served: Served) -> None:
    version = served.push("alpha")
    [base] = served.client.bases.list()
    assert (base["name"], base["weights_digest"], base["stored_bytes"]) == ("fake-base", version["base_digest"], None)
    assert served.client.bases.register() == served.client.bases.show("fake-base")
    with pytest.raises(NotFound, match="no files"):
        served.client.bases.pull("fake-base", served.folder / "pulled")


def test_what_is_no_base_is_refused_and_leaves_nothing_to_be_seen(served: Served, sharded: Path) -> None:
    (sharded / "model-2.safetensors").unlink()
    with pytest.raises(Refused, match="half downloaded"):
        served.client.bases.push(sharded)
    (sharded / "model.safetensors.index.json").unlink()
    (sharded / "model-1.safetensors").unlink()
    with pytest.raises(Refused, match=r"no model\.safetensors"):
        served.client.bases.push(sharded)
    assert served.client.bases.list() == []
    assert list(served.app.state.services.settings.bundles.glob("*/*")) == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"manifest": {"files": [{**FILE, "path": "../x"}]}, "name": "x"}, 400, "path"),
        ({"manifest": {"files": [FILE]}, "name": "x"}, 409, None),
        ({"manifest": {"files": [FILE]}}, 400, "name"),
        ({"manifest": {"files": []}, "name": "No Name"}, 400, "files"),
        ({"name": "x"}, 400, "name"),
        ({"digest": "sha256:" + "a" * 64}, 400, "digest"),
    ],
)
def test_a_wrong_body_is_named(served: Served, body: dict[str, object], status: int, field: str | None) -> None:
    response = served.http.post("/api/v1/bases", json=body)
    assert (response.status_code, response.json().get("field")) == (status, field)


def test_verifying_everything_looks_at_the_files_of_bases(served: Served, sharded: Path) -> None:
    pushed, version = served.client.bases.push(sharded, name="tiny"), served.push("alpha")
    store = served.app.state.services.store
    lost = pushed["manifest"]["files"][0]
    store.delete("local", lost["digest"])
    report = served.client.verify()
    assert (report["versions"], report["blobs"]) == (1, len({*_digests(pushed), *_digests(version)}))
    [problem] = report["problems"]
    assert (problem["state"], problem["files"]) == ("missing", [f"base tiny {lost['path']}"])


def test_another_folder_in_the_way_is_left_alone(served: Served, sharded: Path, tmp_path: Path) -> None:
    served.client.bases.push(sharded, name="tiny")
    (target := tmp_path / "there").mkdir()
    (target / "mine").write_text("mine")
    with pytest.raises(Conflict, match="something else"):
        served.client.bases.pull("tiny", target)
    assert files_of(target) == {"mine": b"mine"}


@pytest.mark.parametrize("reference", ["tiny:1.0.0", "tiny@production", "other/tiny"])
def test_a_base_has_neither_versions_nor_aliases(served: Served, reference: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest):
        served.client.bases.pull(reference, tmp_path / "pulled")


class Breaking(httpx.BaseTransport):
    """Breaks the first answers with files off after so many bytes each, or not where there is None."""

    def __init__(self, inner: httpx.Client, cuts: Sequence[int | None]) -> None:
        self._inner, self._cuts = inner, iter(cuts)
        self.ranges: list[str | None] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.send(request, stream=True)
        if request.method != "GET" or "/blobs/" not in request.url.path:
            return response
        self.ranges.append(request.headers.get("range"))
        if (keep := next(self._cuts, None)) is None:
            return response
        assert isinstance(response.stream, httpx.SyncByteStream)
        return httpx.Response(response.status_code, headers=response.headers, stream=_Cut(response.stream, keep))


class _Cut(httpx.SyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream, keep: int) -> None:
        self._stream, self._keep = stream, keep

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield chunk[: self._keep]
            break
        raise httpx.ReadError("cut")

    def close(self) -> None:
        self._stream.close()


@contextmanager
def breaking(served: Served, *cuts: int | None) -> Iterator[tuple[Client, Breaking]]:
    transport = Breaking(served.http, cuts)
    with httpx.Client(transport=transport, base_url="http://test") as http:
        yield Client(http=http), transport


def test_a_file_that_breaks_off_goes_on_where_it_was(served: Served, sharded: Path, tmp_path: Path) -> None:
    served.client.bases.push(sharded, name="tiny")
    with breaking(served, 10, 10, 10) as (client, transport):
        client.bases.pull("tiny", tmp_path / "pulled")
    assert transport.ranges[:5] == [None, "bytes=10-", "bytes=20-", "bytes=30-", None]
    assert served.client.bases.pull("tiny", tmp_path / "pulled")["name"] == "tiny"  # the same files


def test_a_pull_that_fails_leaves_nothing_half_and_the_next_one_goes_on(
    served: Served, sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graftwork.client.downloads.PAUSES_S", ())
    served.client.bases.push(sharded, name="tiny")
    target = tmp_path / "pulled"
    with breaking(served, None, 10, 0) as (client, _), pytest.raises(Unavailable):
        client.bases.pull("tiny", target)
    assert (target.exists(), len(hidden(tmp_path))) == (False, 1)
    with breaking(served) as (client, transport):
        client.bases.pull("tiny", target)
    assert transport.ranges[:2] == ["bytes=10-", None]
    with breaking(served) as (client, transport):
        client.bases.pull("tiny", target)
    assert (transport.ranges, hidden(tmp_path)) == ([], [])


def test_only_one_fetches_into_a_folder(served: Served, sharded: Path, tmp_path: Path) -> None:
    manifest = Manifest.from_json(served.client.bases.push(sharded, name="tiny")["manifest"])
    target = tmp_path / "pulled"
    with partial(target, manifest), pytest.raises(Conflict, match="Somebody else"):
        served.client.bases.pull("tiny", target)
    served.client.bases.pull("tiny", target)


@pytest.mark.parametrize(
    ("path", "manifest_digest", "error"),
    [
        ("../evil", None, InvalidRequest),
        ("/etc/evil", None, InvalidRequest),
        ("evil", "sha256:" + "0" * 64, Damaged),
    ],
)
def test_a_server_that_lies_makes_nobody_write_elsewhere(
    tmp_path: Path, path: str, manifest_digest: str | None, error: type[Exception]
) -> None:
    base = {"manifest": {"files": [{**FILE, "path": path}]}, "manifest_digest": manifest_digest}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=base))
    with httpx.Client(transport=transport, base_url="http://test") as http, pytest.raises(error):
        Client(http=http).bases.pull("tiny", tmp_path / "in" / "pulled")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sent", [b"", b"abc", b"abcde", b"abcdef"])
def test_a_server_that_sends_other_bytes_is_not_asked_for_ever(tmp_path: Path, sent: bytes) -> None:
    file = BundleFile("x", 5, f"sha256:{hashlib.sha256(b'vwxyz').hexdigest()}")
    transport = httpx.MockTransport(lambda request: httpx.Response(200, stream=httpx.ByteStream(sent)))
    with httpx.Client(transport=transport, base_url="http://test") as http, pytest.raises(Damaged):
        download(Wire(None, None, http, 1.0), tmp_path / "x", file)
    assert not (tmp_path / "x").exists()


def test_a_link_in_the_way_is_not_followed(served: Served, sharded: Path, tmp_path: Path) -> None:
    manifest = Manifest.from_json(served.client.bases.push(sharded, name="tiny")["manifest"])
    (elsewhere := tmp_path / "elsewhere").write_text("mine")
    target = tmp_path / "pulled"
    with partial(target, manifest) as folder:
        (folder / "config.json").symlink_to(elsewhere)
    with pytest.raises(OSError):
        served.client.bases.pull("tiny", target)
    assert (elsewhere.read_text(), target.exists()) == ("mine", False)


def test_stored_bytes_that_went_bad_are_never_pulled_and_repaired_by_the_next_push(
    served: Served, sharded: Path, tmp_path: Path
) -> None:
    pushed = served.client.bases.push(sharded, name="tiny")
    for path in ("config.json", "model-1.safetensors"):
        digest = next(file["digest"] for file in pushed["manifest"]["files"] if file["path"] == path)
        store = served.app.state.services.store
        assert isinstance(store, LocalStore)
        [blob] = [found for found in served.folder.rglob(digest.removeprefix("sha256:")) if found.is_file()]
        blob.chmod(0o644)
        content = blob.read_bytes()
        blob.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(Damaged):
            served.client.bases.pull("tiny", tmp_path / "pulled")
        assert not (tmp_path / "pulled").exists()
        assert served.client.bases.push(sharded, name="tiny") == pushed
    served.client.bases.pull("tiny", tmp_path / "pulled")


def test_a_large_blob_that_went_bad_breaks_off_before_its_end(served: Served, tmp_path: Path) -> None:
    content = bytes(range(256)) * (3 << 12)  # three chunks
    file = BundleFile("weights", len(content), f"sha256:{hashlib.sha256(content).hexdigest()}")
    served.http.put(
        f"/api/v1/blobs/{file.digest}", content=content, headers={"content-type": "application/octet-stream"}
    )
    [blob] = [found for found in served.folder.rglob(file.digest.removeprefix("sha256:")) if found.is_file()]
    blob.chmod(0o644)
    blob.write_bytes(content[:-1] + b"x")
    with pytest.raises(Damaged):
        download(Wire(None, None, served.http, 60.0), tmp_path / "weights", file)
    assert (tmp_path / "weights").stat().st_size < len(content)
    served.http.put(
        f"/api/v1/blobs/{file.digest}", content=content, headers={"content-type": "application/octet-stream"}
    )
    download(Wire(None, None, served.http, 60.0), tmp_path / "weights", file)
    assert (tmp_path / "weights").read_bytes() == content


def test_a_blob_is_read_from_any_byte_on(served: Served) -> None:
    file = served.push("alpha")["manifest"]["files"][1]
    door = f"/api/v1/blobs/{file['digest']}"
    whole = served.http.get(door)
    assert (whole.status_code, len(whole.content)) == (200, file["size"])
    part = served.http.get(door, headers={"range": "bytes=7-"})
    assert (part.status_code, part.content) == (206, whole.content[7:])
    assert part.headers["content-range"] == f"bytes 7-{file['size'] - 1}/{file['size']}"
    for odd in ("bytes=-5", "bytes=1-2", f"bytes={file['size']}-", "lines=1-", "bytes=x-"):
        assert served.http.get(door, headers={"range": odd}).content == whole.content
    assert served.http.get("/api/v1/blobs/sha256:" + "f" * 64).status_code == 404


def test_nothing_of_a_base_is_needed_to_list_them(settings: Settings) -> None:
    with Client(app=build_app(settings, outline_of=fake_outline)) as client:
        assert client.bases.list() == []
