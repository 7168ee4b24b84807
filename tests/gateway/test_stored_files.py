"""Stored files: verified on demand, in a folder and in a bucket, and repaired by the next push."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from obstore.store import from_url

from graftwork.errors import Damaged, InvalidRequest
from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.object_stores import ObjectServer
from support.served import Served, serving


@pytest.fixture
def in_bucket(settings: Settings, tmp_path: Path, seaweedfs_server: ObjectServer) -> Iterator[Served]:
    """A server that keeps its files in S3."""
    with serving(settings.model_copy(update={"artifacts_url": seaweedfs_server.url()}), tmp_path) as made:
        yield made


def weights_of(served: Served) -> str:
    files = served.client.show("alpha")["manifest"]["files"]
    digest: str = next(file["digest"] for file in files if file["path"].endswith(".safetensors"))
    return digest


def test_all_that_was_pushed_is_whole(served: Served) -> None:
    assert served.client.verify() == {"versions": 0, "blobs": 0, "bytes": 0, "problems": []}
    first, second = served.push("alpha:1.0.0", seed=1), served.push("beta:1.0.0", seed=2)
    sizes = {file["digest"]: file["size"] for version in (first, second) for file in version["manifest"]["files"]}
    report = served.client.verify()
    assert report == {"versions": 2, "blobs": len(sizes), "bytes": sum(sizes.values()), "problems": []}
    assert served.client.verify("alpha")["versions"] == 1


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_damage_in_a_folder_is_told_and_the_next_push_repairs_it(served: Served, settings: Settings, how: str) -> None:
    served.push("alpha:1.0.0")
    digest = weights_of(served)
    [blob] = (settings.home / "artifacts").rglob(digest.removeprefix("sha256:"))
    blob.unlink() if how == "missing" else blob.write_bytes(b"x")
    told_and_repaired(served, digest, how)


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_damage_in_a_bucket_is_told_and_the_next_push_repairs_it(in_bucket: Served, how: str) -> None:
    in_bucket.push("alpha:1.0.0")
    digest = weights_of(in_bucket)
    url = in_bucket.app.state.services.settings.artifacts_url
    objects, key = from_url(url, client_options={"allow_http": True}), f"local/sha256/{digest[7:9]}/{digest[7:]}"
    obstore.delete(objects, key) if how == "missing" else obstore.put(objects, key, b"x")
    told_and_repaired(in_bucket, digest, how)


def told_and_repaired(served: Served, digest: str, how: str) -> None:
    [problem] = served.client.verify()["problems"]
    assert problem == {"state": how, "digest": digest, "files": ["alpha:1.0.0 adapter_model.safetensors"]}
    assert served.client.verify("alpha")["problems"][0]["state"] == "missing"  # damaged bytes were set aside
    assert served.push("alpha:1.0.0")["created"] is False
    assert served.client.verify()["problems"] == []


def test_what_is_damaged_in_a_bucket_is_never_served_and_its_copy_is_made_anew(in_bucket: Served) -> None:
    in_bucket.push("alpha:1.0.0")
    services, digest = in_bucket.app.state.services, weights_of(in_bucket)
    manifest = services.registry.show("local", "alpha").manifest
    copies: Callable[[], Path] = lambda: services.pushes._working_copies.materialise("local", manifest)  # noqa: E731
    folder = copies()
    shutil.rmtree(folder)
    objects = from_url(services.settings.artifacts_url, client_options={"allow_http": True})
    key = f"local/sha256/{digest[7:9]}/{digest[7:]}"
    obstore.put(objects, key, bytes(obstore.head(objects, key)["size"]))
    with pytest.raises(Damaged):
        copies()
    assert not folder.exists()
    in_bucket.client.push(write_lora(in_bucket.folder / "lora-0", in_bucket.engine.outline), "alpha:1.0.0")
    assert copies() == folder


def test_a_digest_that_is_none_is_a_400(served: Served) -> None:
    with pytest.raises(InvalidRequest, match="digest"):
        served.client._wire.json("POST", "/api/v1/blobs/sha256:nope/verify")
