"""One suite over every format of a package: what comes back is what was kept, and nothing that is wrong comes in."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import digest_of_file
from graftwork.client.folders import partial
from graftwork.client.formats import FORMATS
from graftwork.client.sources import opened
from graftwork.errors import Conflict, Damaged, InvalidRequest, Refused, Unavailable
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, fake_outline, write_lora
from support.evaluations import task
from support.keys import KEYS
from support.served import Served, serving


@pytest.fixture(params=FORMATS, scope="module")
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["", ".tar"], ids=["directory", "tar"], scope="module")
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A registry with alpha:1.2.0, with which everything is kept that can be, derived from parent:0.1.0."""
    folder = tmp_path_factory.mktemp("source")
    with serving(settings_in(folder / "home"), folder) as served:
        fill(served)
        yield served


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another registry, of the same base."""
    folder = tmp_path_factory.mktemp("other")
    with serving(settings_in(folder / "home"), folder) as made:
        yield made


@pytest.fixture(scope="module")
def packed(source: Served, format: str, ending: str) -> Path:
    """alpha in each format, as a folder and as a tar."""
    target = source.folder / f"{format}{ending}"
    source.client.packages.export("alpha", target, format=format)
    return target


@pytest.fixture(scope="module")
def unpacked(source: Served, format: str) -> Path:
    """alpha in each format, as a folder."""
    target = source.folder / f"{format}-unpacked"
    source.client.packages.export("alpha", target, format=format)
    return target


def settings_in(home: Path) -> Settings:
    return Settings(home=home, base="fake-base", base_name="fake-base", port=0)


def fill(served: Served) -> None:
    client, folder = served.client, served.folder
    served.push("parent:0.1.0", seed=9)
    adapter = write_lora(folder / "alpha", served.engine.outline)
    (adapter / "README.md").write_text("---\nlicense: mit\n---\nIts author's own words.\n")
    (adapter / "tokenizer").mkdir()
    (adapter / "tokenizer" / "note é.txt").write_text("deep")
    metadata = {"author": "A", "license": "mit", "parents": ["parent"], "labels": {"team": "blue"}}
    client.push(adapter, "alpha:1.2.0", metadata=metadata)
    report, examples = folder / "report.html", folder / "examples.jsonl"
    report.write_text("<p>fine</p>")
    examples.write_text('{"id": "1", "scores": {"accuracy": 1}}\n')
    client.evaluations.add("alpha", task(0.25))
    client.evaluations.add("alpha", task(0.75, supersedes=1), examples=examples, reports=[report])
    client.documents.add("alpha", report, kind="compliance", note="checked")
    client.documents.edit_card("alpha", "Edited by people.\n")
    client.signatures.sign("alpha", KEYS["ed25519"].private)


def told(served: Served, reference: str = "alpha") -> dict[str, Any]:
    """What is kept with a version, without what each registry says for itself."""
    client = served.client
    documents = [one for one in client.documents.list(reference) if one["source"] == "added"]
    own = ("id", "revision", "created_at", "created_by")
    evaluations = [one["evaluation"] for one in client.evaluations.list(reference) if one["superseded_by"] is None]
    return {
        "documents": [{key: value for key, value in one.items() if key not in own} for one in documents],
        "signatures": [one["bundle"] for one in client.signatures.list(reference)],
        "evaluations": [{key: value for key, value in one.items() if key != "supersedes"} for one in evaluations],
    }


def test_what_goes_out_comes_in(source: Served, other: Served, packed: Path, tmp_path: Path) -> None:
    alpha, client = source.client.show("alpha"), other.client
    parent = client.push(source.folder / "lora-9", "parent:0.1.0")
    name = f"alpha-{packed.name}"
    version = client.packages.import_(packed, name, public_key=KEYS["ed25519"].public)
    assert (version["created"], version["digest"], version["semver"]) == (True, alpha["digest"], "1.2.0")
    assert version["added"] == {"documents": 2, "signatures": 1, "evaluations": 1}
    assert told(other, name) == told(source)
    assert [one["state"] for one in client.signatures.verify(name, KEYS["ed25519"].public)] == ["valid"]
    metadata = client.show(name)["metadata"]
    assert (metadata["parents"], metadata["labels"]["team"]) == ([f"parent@{parent['digest']}"], "blue")
    label = metadata["labels"]["imported_from"]
    assert (label["source"], label["adapter"], label["semver"]) == (packed.name, "alpha", "1.2.0")
    again = client.packages.import_(packed, name)
    assert (again["created"], again["added"]) == (False, {"documents": 0, "signatures": 0, "evaluations": 0})


def test_the_same_state_is_the_same_bytes(source: Served, packed: Path, format: str, tmp_path: Path) -> None:
    again = tmp_path / packed.name
    made = source.client.packages.export("alpha", again, format=format)
    if packed.is_file():
        assert again.read_bytes() == packed.read_bytes()
        assert made["target_digest"] == digest_of_file(packed)
    else:
        assert everything_in(again) == everything_in(packed)
    assert not list(tmp_path.glob(".*"))


def everything_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_byte_can_be_changed_and_no_file_be_missing(unpacked: Path, format: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(unpacked, tmp_path / "package"))
    says_nothing = {"hub": {"README.md"}, "mlflow": {"MLmodel"}}.get(format, set())
    for name, whole in everything_in(folder).items():
        if name not in says_nothing:
            (folder / name).write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
            with pytest.raises((Damaged, InvalidRequest, Refused)), opened(str(folder)):
                pass
            (folder / name).unlink()
            with pytest.raises((Damaged, InvalidRequest, Refused)), opened(str(folder)):
                pass
            (folder / name).write_bytes(whole)
    with opened(str(folder)):
        pass


def test_a_file_that_changes_while_it_is_sent_is_not_taken(unpacked: Path, served: Served, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(unpacked, tmp_path / "package"))

    def change(request: httpx.Request) -> None:
        if request.method == "PUT":
            for name, whole in everything_in(folder).items():
                (folder / name).write_bytes(whole[:-1] + b"~")

    served.http.event_hooks["request"] = [change]
    with pytest.raises(InvalidRequest, match="do not match their digest"):
        served.client.packages.import_(folder)
    assert served.client.adapters() == []


def test_only_a_server_of_the_same_base_takes_it(packed: Path, tmp_path: Path) -> None:
    outline = replace(fake_outline(), weights_digest="sha256:" + "1" * 64)
    with serving(settings_in(tmp_path / "home"), tmp_path, FakeEngine(outline=outline)) as third:
        with pytest.raises(Refused, match="bound to its base"):
            third.client.packages.import_(packed)
        assert third.client.adapters() == []


class Killed(BaseException):
    """What no code of ours catches."""


def every_k(served: Served, do: Callable[[], object]) -> Iterator[int]:
    """Let `do` end at its first request, then at its second, and so on until it is done; after each, look around."""
    for number in range(1000):
        left = iter(range(number))

        def count(_request: object, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed

        served.http.event_hooks["request"] = [count]
        try:
            do()
            return
        except Killed:
            served.http.event_hooks["request"] = []
            yield number
        finally:
            served.http.event_hooks["request"] = []


@pytest.mark.parametrize("name", ["package", "package.tar"])
def test_an_export_that_is_killed_leaves_nothing_and_the_next_one_finishes_it(
    source: Served, name: str, tmp_path: Path
) -> None:
    target, kills = tmp_path / name, 0
    for _ in every_k(source, lambda: source.client.packages.export("alpha", target)):
        assert not target.exists()
        kills += 1
    assert kills > 10 and target.exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_import_that_is_killed_shows_nothing_half_and_the_next_one_finishes_it(
    source: Served, served: Served, tmp_path: Path
) -> None:
    source.client.packages.export("alpha", tmp_path / "alpha.tar", format="oci")
    alpha, seen = source.client.show("alpha"), []
    for _ in every_k(served, lambda: served.client.packages.import_(tmp_path / "alpha.tar")):
        seen.append(len(served.client.adapters()))
        if seen[-1]:  # a version is there whole, whatever is still to be added to it
            assert served.client.verify("alpha")["problems"] == []
            assert served.client.show("alpha")["digest"] == alpha["digest"]
    assert set(seen) == {0, 1}
    assert told(served) == told(source)


def test_nobody_writes_where_somebody_is_or_was(source: Served, tmp_path: Path) -> None:
    for target in (tmp_path / "package", tmp_path / "package.tar"):
        with partial(target), pytest.raises(Conflict, match="Somebody else"):
            source.client.packages.export("parent", target)
        source.client.packages.export("parent", target)
        with pytest.raises(Conflict, match="there already"):
            source.client.packages.export("parent", target)
    (tmp_path / "empty").mkdir()
    source.client.packages.export("parent", tmp_path / "empty")


@pytest.mark.parametrize(("error", "stays"), [(Unavailable("away"), True), (Damaged("bad"), False)])
def test_what_came_stays_where_the_connection_broke_and_only_then(
    source: Served, error: Exception, stays: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("graftwork.client.packages.download", fail)
    with pytest.raises(type(error)):
        source.client.packages.export("alpha", tmp_path / "package")
    assert [path.name for path in tmp_path.iterdir()] == ([".package.partial"] if stays else [])


@pytest.mark.parametrize("name", ["alpha", "parent"], ids=["signed with another key", "not signed"])
def test_only_what_a_known_key_signed_is_taken_where_that_is_asked(
    source: Served, other: Served, name: str, tmp_path: Path
) -> None:
    source.client.packages.export(name, tmp_path / "package")
    with pytest.raises(Refused, match="no valid signature"):
        other.client.packages.import_(tmp_path / "package", "unsigned", public_key=KEYS["p256"].public)
    assert "unsigned" not in {adapter["name"] for adapter in other.client.adapters()}


def test_parents_that_are_not_there_are_kept_as_words(source: Served, served: Served, tmp_path: Path) -> None:
    source.client.packages.export("alpha", tmp_path / "package")
    version = served.client.packages.import_(tmp_path / "package", "renamed:3.0.0")
    assert version["notes"][0].startswith("metadata.parents: parent@sha256:")
    metadata = served.client.show("renamed:3.0.0")["metadata"]
    assert (metadata["parents"], len(metadata["labels"]["imported_from"]["parents"])) == ([], 1)
    served.client.packages.export("renamed", tmp_path / "again")
    twice = served.client.packages.import_(tmp_path / "again", "twice")["metadata"]["labels"]["imported_from"]
    assert (twice["adapter"], twice["before"]["adapter"]) == ("renamed", "alpha")


NOTHING = "sha256:" + "0" * 64


@pytest.mark.parametrize("format", sorted(FORMATS.keys() - {"oci"}), indirect=True)
@pytest.mark.parametrize(
    "wrong",
    [
        {"manifest": {"files": [{"path": "../x", "size": 1, "digest": NOTHING}]}},
        {"manifest": {"files": [{"path": "/etc/passwd", "size": 1, "digest": NOTHING}]}},
        {"manifest": {"files": []}},
        {"evaluations": [{"digest": "sha256:../../etc", "size": 1}]},
        {"documents": [{"kind": "other", "name": "x", "size": 1, "digest": NOTHING}]},
        {"digest": NOTHING},
        {"format": 2},
        {"unknown": True},
        {"metadata": [[[]]]},
    ],
    ids=lambda wrong: str(wrong)[:30],
)
def test_a_record_that_is_not_right_is_refused(
    source: Served, unpacked: Path, wrong: dict[str, Any], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(unpacked, tmp_path / "package"))
    record = folder / ".graftwork" / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | wrong))
    with pytest.raises((InvalidRequest, Damaged)), opened(str(folder)):
        pass


@pytest.mark.parametrize(
    "wrong",
    [
        {"documents": [{"kind": "weights", "name": "x"}]},
        {"documents": [{"kind": "other", "name": "../x"}]},
        {"evaluations": b"[]"},
        {"evaluations": b'{"family": "task"}'},
        {"signatures": b"{}"},
    ],
    ids=str,
)
def test_what_is_kept_with_it_is_judged_before_anything_is_sent(
    source: Served, served: Served, wrong: dict[str, Any], tmp_path: Path
) -> None:
    source.client.packages.export("parent", tmp_path / "package")
    record = json.loads((tmp_path / "package" / ".graftwork" / "record.json").read_text())
    [(what, told)] = wrong.items()
    data = told if isinstance(told, bytes) else b"x"
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    blob = tmp_path / "package" / ".graftwork" / "blobs" / digest.removeprefix("sha256:")
    blob.parent.mkdir()
    blob.write_bytes(data)
    entry = {"digest": digest, "size": len(data)} | (told[0] if what == "documents" else {})
    if what == "signatures":
        entry = {"bundle": digest, "size": len(data), "public_key": KEYS["p256"].public.decode()}
    record[what] = [entry]
    (tmp_path / "package" / ".graftwork" / "record.json").write_text(json.dumps(record))
    with pytest.raises((InvalidRequest, Refused)):
        served.client.packages.import_(tmp_path / "package")
    assert served.client.adapters() == []


def test_an_older_package_supersedes_no_newer_document(source: Served, served: Served, tmp_path: Path) -> None:
    source.client.packages.export("alpha", tmp_path / "package")
    served.client.packages.import_(tmp_path / "package")
    card = served.client.documents.edit_card("alpha", "Newer words.\n")
    assert served.client.packages.import_(tmp_path / "package")["added"]["documents"] == 0
    assert card["digest"] in {one["digest"] for one in served.client.documents.list("alpha")}


@pytest.mark.parametrize("format", FORMATS, indirect=True)
def test_an_adapter_whose_files_are_named_as_ours_travels_too(
    source: Served, served: Served, format: str, tmp_path: Path
) -> None:
    folder = write_lora(tmp_path / "odd", source.engine.outline)
    for name in ("MLmodel", "oci-layout", "index.json", "readme.MD"):
        (folder / name).write_text("{}")
    digest = source.client.push(folder, "odd")["digest"]
    source.client.packages.export("odd", tmp_path / "odd.tar", format=format)
    assert served.client.packages.import_(tmp_path / "odd.tar", "odd:7.0.0")["digest"] == digest
    assert served.client.packages.import_(tmp_path / "odd.tar", "odd")["semver"] == "7.0.0"
    for wrong in ("Odd", "odd@production", "../odd", "odd:x"):
        with pytest.raises(InvalidRequest):
            served.client.packages.import_(tmp_path / "odd.tar", wrong)


def test_a_pulled_folder_is_what_was_pushed(source: Served, tmp_path: Path) -> None:
    folder, digest = tmp_path / "pulled", source.client.show("alpha")["digest"]
    for _ in range(2):
        assert source.client.pull("alpha", folder)["digest"] == digest
    assert Manifest.of_folder(folder).digest() == digest
    shutil.rmtree(folder / "tokenizer")
    with pytest.raises(Conflict):
        source.client.pull("alpha", folder)
