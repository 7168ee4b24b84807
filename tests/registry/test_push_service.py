"""PushService: blobs first, then the account, then the row."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from graftwork.adapters.identity import AdapterIdentity
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.errors import Conflict, Damaged, InvalidMetadata, InvalidRequest, NotFound, Refused, Unavailable
from graftwork.registry.push import MAX_BUNDLE_BYTES, PushResult, PushService
from support.pushes import IDENTITY, FakeAccount, digest_of, manifest_of, outline

if TYPE_CHECKING:
    from support.desk import Desk

FILES = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights"}


@dataclass
class Counter:
    """The service with everything it stands on; `account` is what the next push gets."""

    desk: Desk
    folder: Path
    account: FakeAccount = field(default_factory=FakeAccount)
    identity: AdapterIdentity = IDENTITY
    max_bundle_bytes: int = MAX_BUNDLE_BYTES
    seen: list[dict[str, bytes]] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)

    def account_of(self, folder: Path) -> FakeAccount:
        self.seen.append({path.name: path.read_bytes() for path in folder.iterdir()})
        return self.account

    def upload(self, files: dict[str, bytes], tenant: str = "local") -> Manifest:
        for data in files.values():
            self.store.put(tenant, digest_of(data), [data])
        return manifest_of(files)

    def push(self, manifest: Manifest, name: str = "tone", **more: Any) -> PushResult:
        copies = WorkingCopies(self.folder, self.store)
        service = PushService(
            self.desk.registry, self.store, copies, outline, self.account_of, self.max_bundle_bytes,
            identity_of=lambda _: self.identity,
        )  # fmt: skip
        return service.push(more.pop("tenant", "local"), name, manifest, actor="me", **more)

    def copies(self) -> list[str]:
        """The files of all working copies, and of what is left of one."""
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def is_empty(self) -> bool:
        return self.desk.registry.list_adapters("local").items == ()


@pytest.fixture
def counter(desk: Desk, tmp_path: Path) -> Counter:
    return Counter(desk, tmp_path / "bundles")


def test_a_push_registers_what_the_account_saw(counter: Counter) -> None:
    result = counter.push(counter.upload(FILES), semver="1.4", metadata={"labels": {"a": 1}})
    version = result.version
    assert result.created
    assert counter.seen == [FILES]
    assert (version.label, version.kind, version.rank, version.bytes) == ("tone:1.4.0", "lora", 8, 7)
    assert (version.base, version.base_digest) == ("tiny", "sha256:" + "b" * 64)
    assert version.account == {"ok": True, "problems": ()}
    assert result.account is counter.account


def test_the_same_push_again_is_the_same_version(counter: Counter) -> None:
    manifest = counter.upload(FILES)
    first, again = counter.push(manifest), counter.push(manifest)
    assert not again.created
    assert again.version == first.version


@pytest.mark.parametrize("missing", [["adapter_config.json"], ["adapter_model.safetensors"], list(FILES)])
def test_missing_blobs_are_all_listed_and_nothing_is_registered(counter: Counter, missing: list[str]) -> None:
    for path in FILES.keys() - missing:
        counter.upload({path: FILES[path]})
    manifest = manifest_of(FILES)
    with pytest.raises(Conflict, match="Upload these blobs") as caught:
        counter.push(manifest)
    for path, data in FILES.items():
        assert (digest_of(data) in caught.value.message) == (path in missing)
    assert counter.is_empty() and counter.seen == []
    assert counter.push(counter.upload(FILES)).created


def test_a_size_that_the_blob_does_not_have_is_said(counter: Counter) -> None:
    first, *rest = counter.upload(FILES).files
    with pytest.raises(Conflict, match="stored with 2 bytes, the manifest says 3"):
        counter.push(Manifest((BundleFile(first.path, 3, first.digest), *rest)))


def test_a_copy_that_another_process_takes_away_meanwhile_can_be_pushed_again(
    counter: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, reads = counter.upload(FILES), Counter.account_of

    def taken(self: Counter, folder: Path) -> FakeAccount:
        (folder / "adapter_model.safetensors").unlink()
        return FakeAccount(bytes=(folder / "adapter_model.safetensors").stat().st_size)

    monkeypatch.setattr(Counter, "account_of", taken)
    with pytest.raises(Unavailable, match=r"tone could not be read .* push it again"):
        counter.push(manifest)
    assert counter.is_empty() and counter.copies() == []
    monkeypatch.setattr(Counter, "account_of", reads)
    assert counter.push(manifest).created


def test_another_tenants_blobs_do_not_count(counter: Counter) -> None:
    with pytest.raises(Conflict, match="Upload these blobs"):
        counter.push(counter.upload(FILES, tenant="acme"))


def test_a_damaged_blob_is_noticed_before_anything_is_registered(counter: Counter) -> None:
    manifest = counter.upload(FILES)
    key = ("local", digest_of(FILES["adapter_model.safetensors"]))
    counter.store.blobs[key] = b"wEights"
    with pytest.raises(Damaged):
        counter.push(manifest)
    assert counter.is_empty() and counter.seen == []
    assert counter.push(counter.upload(FILES)).created


def test_an_adapter_whose_account_is_not_in_order_is_refused_with_its_problems(counter: Counter) -> None:
    counter.account = FakeAccount(ok=False, kind=None, problems=("q_proj: wrong shape", "k_proj: NaN"))
    with pytest.raises(Refused, match="q_proj: wrong shape") as caught:
        counter.push(counter.upload(FILES))
    assert caught.value.problems == ("q_proj: wrong shape", "k_proj: NaN")
    assert counter.is_empty()
    with pytest.raises(NotFound):
        counter.desk.registry.history("local", "tone")


def test_many_paths_of_one_blob_cannot_fill_the_disk(counter: Counter) -> None:
    blob = counter.upload({"a": b"12345"}).files[0]
    many = Manifest(tuple(BundleFile(f"file-{number}", blob.size, blob.digest) for number in range(4)))
    counter.max_bundle_bytes = 19
    with pytest.raises(Refused, match=r"20 bytes together; a bundle may have 19\."):
        counter.push(many)
    assert counter.seen == [] and not counter.folder.exists()
    counter.max_bundle_bytes = 20
    assert counter.push(many).created


def test_a_refused_push_leaves_no_working_copy_and_the_next_one_works(counter: Counter) -> None:
    manifest = counter.upload(FILES)
    counter.account = FakeAccount(ok=False, problems=("q_proj: NaN",))
    with pytest.raises(Refused):
        counter.push(manifest)
    assert counter.copies() == []
    counter.account = FakeAccount()
    with pytest.raises(InvalidRequest):
        counter.push(manifest, metadata={"labels": {"x": float("nan")}})
    assert counter.copies() == []
    assert counter.push(manifest).created
    assert counter.copies() == sorted(FILES)


def test_a_refused_push_leaves_the_copy_of_a_version_with_the_same_bytes(counter: Counter) -> None:
    manifest = counter.upload(FILES)
    counter.push(manifest)
    with pytest.raises(Conflict):
        counter.push(manifest, semver="2.0.0")
    counter.account = FakeAccount(ok=False)
    with pytest.raises(Refused):
        counter.push(manifest, "voice")
    assert counter.copies() == sorted(FILES)


def test_another_tenants_version_keeps_no_copy_of_ours(counter: Counter) -> None:
    counter.push(counter.upload(FILES, "acme"), tenant="acme")
    counter.account = FakeAccount(ok=False)
    with pytest.raises(Refused):
        counter.push(counter.upload(FILES))
    assert counter.copies() == sorted(FILES)
    assert list((counter.folder / "local").iterdir()) == []


def test_the_bases_own_name_is_taken(counter: Counter) -> None:
    with pytest.raises(Conflict, match="base model"):
        counter.push(counter.upload(FILES), "tiny")


@pytest.mark.parametrize("wrong", [{"name": "../x"}, {"semver": "1"}, {"tenant": "a/b"}])
def test_wrong_words_are_refused_before_any_work(counter: Counter, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        counter.push(manifest_of(FILES), **wrong)
    assert counter.seen == []


def test_a_long_list_of_missing_blobs_is_cut_short(counter: Counter) -> None:
    many = {f"file-{number}": str(number).encode() for number in range(25)}
    with pytest.raises(Conflict, match="and 5 more"):
        counter.push(manifest_of(many))


def test_what_files_and_base_say_is_filled_in(counter: Counter) -> None:
    said = {"author": "me", "base": {"id": "org/tiny", "revision": "main"}, "adapter": {"rank": 8}}
    version = counter.push(counter.upload(FILES), metadata=said).version
    assert version.semantic_digest == counter.identity.semantic_digest
    assert version.metadata == {
        "author": "me",
        "base": {"id": "org/tiny", "revision": "main", "weights_digest": "sha256:" + "b" * 64},
        "adapter": {
            "kind": "lora", "rank": 8, "alpha": 16, "target_modules": ("q_proj", "v_proj"), "peft_version": "0.18.0",
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"adapter": {"rank": 4}}, "metadata.adapter.rank"),
        ({"adapter": {"alpha": 8.0}}, "metadata.adapter.alpha"),
        ({"adapter": {"target_modules": ["q_proj"]}}, "metadata.adapter.target_modules"),
        ({"adapter": {"kind": "ia3"}}, "metadata.adapter.kind"),
        ({"adapter": {"peft_version": "0.1"}}, "metadata.adapter.peft_version"),
        ({"base": {"weights_digest": "sha256:" + "a" * 64}}, "metadata.base.weights_digest"),
        ({"parents": ["nobody:1.0.0"]}, "metadata.parents.0"),
        ({"parents": ["No Name"]}, "metadata.parents.0"),
        ({"team": "blue"}, "metadata.team"),
        ({"code": {"dirty": "yes"}}, "metadata.code.dirty"),
    ],
)
def test_metadata_that_are_not_so_are_refused_by_their_field(counter: Counter, said: Any, field: str) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        counter.push(counter.upload(FILES), metadata=said)
    assert (caught.value.field, counter.is_empty(), counter.copies()) == (field, True, [])


def test_the_order_of_targets_does_not_contradict_the_files(counter: Counter) -> None:
    assert counter.push(counter.upload(FILES), metadata={"adapter": {"target_modules": ["v_proj", "q_proj"]}}).created


def test_a_parent_is_kept_by_its_digest_wherever_its_alias_goes(counter: Counter) -> None:
    first = counter.push(counter.upload(FILES)).version
    counter.desk.promote("tone")
    child = counter.push(counter.upload({**FILES, "more": b"more"}), metadata={"parents": ["tone@production"]}).version
    assert child.metadata is not None
    assert child.metadata["parents"] == (f"tone@{first.digest}",)


def test_other_files_of_the_same_content_are_a_version_that_says_so(counter: Counter) -> None:
    manifests = [counter.upload({**FILES, "README.md": text}) for text in (b"1", b"2", b"3")]
    first, second, third = (counter.push(manifest).version for manifest in manifests)
    assert first.same_content_as is None
    assert (second.same_content_as, third.same_content_as) == ("tone:1.0.0", "tone:1.0.0")
    assert len({first.digest, second.digest, third.digest}) == 3
    assert counter.desk.registry.show("local", "tone:1.0.1").same_content_as == "tone:1.0.0"
    assert counter.push(counter.upload({**FILES, "README.md": b"1"}), name="other").version.same_content_as is None
    counter.identity = AdapterIdentity("sha256:" + "d" * 64)
    assert counter.push(counter.upload({**FILES, "README.md": b"4"})).version.same_content_as is None
