"""Working copies: a bundle's files on disk, every byte checked, whole or not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.partial import PARTIAL
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.errors import Damaged, InvalidRequest, Unavailable

FILES = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights" * 99, "sub/notes.md": b"notes"}


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    for data in FILES.values():
        store.put("local", digest_of(data), [data])
    return store


@pytest.fixture
def manifest() -> Manifest:
    return Manifest(tuple(BundleFile(path, len(data), digest_of(data)) for path, data in FILES.items()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "bundles"


@pytest.fixture
def copies(root: Path, store: MemoryStore) -> WorkingCopies:
    return WorkingCopies(root, store)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files_below(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def test_the_folder_has_exactly_the_manifests_files(copies: WorkingCopies, manifest: Manifest, root: Path) -> None:
    folder = copies.materialise("local", manifest)
    assert folder == root / "local" / manifest.digest().removeprefix("sha256:")
    assert content(folder) == FILES
    assert len(files_below(root)) == len(FILES)


def test_a_copy_that_is_there_is_used_again_without_the_store(
    copies: WorkingCopies, manifest: Manifest, store: MemoryStore
) -> None:
    folder = copies.materialise("local", manifest)
    before = (folder / "adapter_config.json").stat().st_ino
    store.blobs.clear()
    assert copies.materialise("local", manifest) == folder
    assert (folder / "adapter_config.json").stat().st_ino == before


def changed(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    path.chmod(0o644)
    path.write_bytes(b"Weights" * 99)


def removed(folder: Path) -> None:
    (folder / "sub" / "notes.md").unlink()


def added(folder: Path) -> None:
    (folder / "adapter_model.bin").write_bytes(b"surprise")


def linked(folder: Path) -> None:
    path = folder / "adapter_config.json"
    (folder.parent / "elsewhere").write_bytes(b"{}")
    path.unlink()
    path.symlink_to(folder.parent / "elsewhere")


@pytest.mark.parametrize("change", [changed, removed, added, linked])
def test_a_copy_that_was_changed_on_disk_is_made_anew(
    copies: WorkingCopies, manifest: Manifest, change: object
) -> None:
    assert callable(change)
    change(copies.materialise("local", manifest))
    folder = copies.materialise("local", manifest)
    assert content(folder) == FILES
    assert not (folder / "adapter_config.json").is_symlink()


@pytest.mark.parametrize("victim", sorted(FILES))
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_damaged_blob_leaves_nothing_behind_and_loads_once_repaired(
    copies: WorkingCopies, manifest: Manifest, store: MemoryStore, root: Path, victim: str, how: str
) -> None:
    key = ("local", digest_of(FILES[victim]))
    store.blobs.pop(key)
    if how == "damaged":
        store.blobs[key] = b"x" + FILES[victim][1:]
    with pytest.raises(Damaged, match=key[1]):
        copies.materialise("local", manifest)
    assert files_below(root) == []
    store.put(*key, [FILES[victim]])
    assert content(copies.materialise("local", manifest)) == FILES


def test_a_copy_that_is_interrupted_leaves_nothing_behind(root: Path, manifest: Manifest, store: MemoryStore) -> None:
    class Interrupted(MemoryStore):
        def open(self, tenant: str, digest: str) -> Iterator[bytes]:
            yield b"half"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        WorkingCopies(root, Interrupted()).materialise("local", manifest)
    assert files_below(root) == []
    assert content(WorkingCopies(root, store).materialise("local", manifest)) == FILES


def test_what_a_killed_process_left_is_not_taken_for_a_copy(
    copies: WorkingCopies, manifest: Manifest, root: Path
) -> None:
    left = root / PARTIAL / "tmpabc" / "fresh"
    left.mkdir(parents=True)
    (left / "adapter_config.json").write_bytes(b"{")
    assert content(copies.materialise("local", manifest)) == FILES


def test_a_size_that_the_blob_does_not_have_is_noticed(copies: WorkingCopies, manifest: Manifest) -> None:
    first, *rest = manifest.files
    wrong = Manifest((BundleFile(first.path, first.size + 1, first.digest), *rest))
    with pytest.raises(Damaged, match="as its manifest says"):
        copies.materialise("local", wrong)


SAME = Manifest(tuple(BundleFile(path, 5, digest_of(b"notes")) for path in ("a.md", "b.md", "sub/c.md")))


def test_equal_bytes_take_their_room_once(copies: WorkingCopies) -> None:
    folder = copies.materialise("local", SAME)
    assert content(folder) == dict.fromkeys(["a.md", "b.md", "sub/c.md"], b"notes")
    assert len({path.stat().st_ino for path in files_below(folder)}) == 1


def test_equal_bytes_are_written_again_where_there_are_no_hard_links(
    copies: WorkingCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    folder = copies.materialise("local", SAME)
    assert content(folder) == dict.fromkeys(["a.md", "b.md", "sub/c.md"], b"notes")
    assert len({path.stat().st_ino for path in files_below(folder)}) == 3


def test_another_size_of_the_same_bytes_is_noticed(copies: WorkingCopies, root: Path) -> None:
    wrong = Manifest((SAME.files[0], BundleFile("b.md", 6, SAME.files[1].digest)))
    with pytest.raises(Damaged, match=r"b\.md has 5 bytes, not 6"):
        copies.materialise("local", wrong)
    assert files_below(root) == []


def test_a_copy_goes_with_the_trial_that_fails_unless_it_is_needed(
    copies: WorkingCopies, manifest: Manifest, root: Path
) -> None:
    for keep, number in ((False, 0), (True, len(FILES))):
        with pytest.raises(KeyError), copies.trial("local", manifest, keep=lambda keep=keep: keep) as folder:  # type: ignore[misc]
            assert content(folder) == FILES
            raise KeyError
        assert len(files_below(root)) == number


def test_a_failed_trial_leaves_the_copy_to_the_others_that_run(
    copies: WorkingCopies, manifest: Manifest, root: Path
) -> None:
    def fail() -> None:
        with pytest.raises(KeyError), copies.trial("local", manifest, keep=lambda: False):
            raise KeyError

    with copies.trial("local", manifest, keep=lambda: False) as folder:
        fail()
        assert content(folder) == FILES
    assert content(folder) == FILES
    fail()
    assert files_below(root) == []


def test_another_tenants_copy_is_out_of_reach(copies: WorkingCopies, manifest: Manifest) -> None:
    copies.materialise("local", manifest)
    with pytest.raises(Damaged):
        copies.materialise("acme", manifest)
    with pytest.raises(InvalidRequest):
        copies.materialise("../local", manifest)


def test_many_threads_that_want_one_copy_all_get_it(copies: WorkingCopies, manifest: Manifest, root: Path) -> None:
    folders: list[Path] = []
    threads = [threading.Thread(target=lambda: folders.append(copies.materialise("local", manifest))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 8 and len(set(folders)) == 1
    assert content(folders[0]) == FILES
    assert len(files_below(root)) == len(FILES)


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path, manifest: Manifest, store: MemoryStore) -> None:
    (tmp_path / "bundles").write_text("a file where the folder should be")
    with pytest.raises(Unavailable, match="bundles"):
        WorkingCopies(tmp_path / "bundles", store).materialise("local", manifest)


def bundle_of(store: MemoryStore, text: str, tenant: str = "local") -> Manifest:
    data = text.encode() * 100
    store.put(tenant, digest_of(data), [data])
    return Manifest((BundleFile("a.bin", len(data), digest_of(data)),))


def test_copies_stay_within_their_bytes_and_those_in_use_stay(root: Path, store: MemoryStore) -> None:
    copies = WorkingCopies(root, store, max_bytes=250)
    one, two, three, four = (bundle_of(store, text) for text in "1234")
    with copies.lease("local", one) as read:
        for manifest in (two, three, four):
            with copies.lease("local", manifest) as folder:
                assert folder.is_dir()
        assert (read / "a.bin").read_bytes() == b"1" * 100, "never taken away from whoever reads it"
        assert copies.used_bytes == 200
        assert not copies.remove("local", one.digest()) and read.is_dir()
    assert copies.find("local", four.digest()) is not None and copies.find("local", two.digest()) is None
    told = copies.used_bytes
    assert copies.remove("local", one.digest()) and not read.is_dir()
    assert copies.used_bytes == told - one.bytes
    copies.check()


def test_what_a_link_leads_to_is_not_counted(root: Path, tmp_path: Path, store: MemoryStore) -> None:
    copies = WorkingCopies(root, store)
    with copies.lease("local", bundle_of(store, "1")) as folder:
        size = copies.used_bytes
        (tmp_path / "large").mkdir()
        (tmp_path / "large" / "file").write_bytes(bytes(10_000))
        (folder.parent / ("0" * 64)).symlink_to(tmp_path / "large")
        (folder / "link").symlink_to(tmp_path / "large" / "file")
    assert WorkingCopies(root, store).used_bytes == size == 100
    assert copies.find("local", f"sha256:{'0' * 64}") is None


def test_with_no_bytes_a_copy_is_there_only_while_it_is_read(root: Path, store: MemoryStore) -> None:
    copies, manifest = WorkingCopies(root, store, max_bytes=0), bundle_of(store, "1")
    for _ in range(2):
        with copies.lease("local", manifest) as folder:
            assert (folder / "a.bin").is_file()
        assert not folder.exists()
    copies.check()


def test_loads_that_read_while_others_flood_never_miss_a_file(root: Path, store: MemoryStore) -> None:
    copies = WorkingCopies(root, store, max_bytes=250)
    manifests, wrong = [bundle_of(store, text) for text in "12345678"], []

    def read(number: int) -> None:
        for turn in range(25):
            with copies.lease("local", manifests[(number + turn) % 8]) as folder:
                if len((folder / "a.bin").read_bytes()) != 100:
                    wrong.append(folder)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and copies.used_bytes <= 250
    copies.check()
