"""OCI layouts: what the specifications say of them, tools that read them, and what others write."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graftwork.artifacts.packages.directory import read_directory
from graftwork.client.formats import read_package
from graftwork.client.sources import opened
from graftwork.errors import Damaged, GraftworkError, InvalidRequest, Refused
from support.served import Served

Exported = Callable[[Path, str], Path]


#: RFC 6838, section 4.2, which the image specification demands of every media type.
MEDIA_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
#: image-spec, annotations.md: the grammar of a reference.
REF = re.compile(r"[A-Za-z0-9]+((-|--|[._:@+])[A-Za-z0-9]+)*(/[A-Za-z0-9]+((-|--|[._:@+])[A-Za-z0-9]+)*)*")
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture(scope="module")
def layout(source: Served, exported: Exported) -> Path:
    return exported(source.folder / "layout", "oci")


def descriptors(layout: Path) -> Iterator[dict[str, Any]]:
    [listed] = json.loads((layout / "index.json").read_text())["manifests"]
    yield listed
    manifest = json.loads(blob(layout, listed))
    yield manifest["config"]
    yield from manifest["layers"]


def blob(layout: Path, descriptor: dict[str, Any]) -> bytes:
    algorithm, _, encoded = descriptor["digest"].partition(":")
    data: bytes = (layout / "blobs" / algorithm / encoded).read_bytes()
    return data


def test_it_keeps_the_rules_of_the_image_specification(layout: Path) -> None:
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout / "index.json").read_text())
    assert (index["schemaVersion"], index["mediaType"]) == (2, "application/vnd.oci.image.index.v1+json")
    found = list(descriptors(layout))
    for one in found:
        data = blob(layout, one)
        assert (one["digest"], one["size"]) == ("sha256:" + hashlib.sha256(data).hexdigest(), len(data))
        assert MEDIA_TYPE.fullmatch(one["mediaType"])
        assert all(isinstance(text, str) for pair in one.get("annotations", {}).items() for text in pair)
    assert {path.name for path in (layout / "blobs" / "sha256").iterdir()} == {one["digest"][7:] for one in found}
    assert REF.fullmatch(found[0]["annotations"]["org.opencontainers.image.ref.name"])
    manifest = json.loads(blob(layout, found[0]))
    assert manifest["schemaVersion"] == 2
    assert manifest["mediaType"] == found[0]["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert manifest["artifactType"] == found[0]["artifactType"] == "application/vnd.cncf.model.manifest.v1+json"
    annotations = manifest["annotations"]
    assert annotations["org.opencontainers.image.version"] == "1.2.0"
    assert annotations["org.opencontainers.image.licenses"] == "mit"
    assert RFC_3339.fullmatch(annotations["org.opencontainers.image.created"])


def test_it_keeps_the_rules_of_modelpack(layout: Path, source: Served) -> None:
    [_, config, *layers] = descriptors(layout)
    assert config["mediaType"] == "application/vnd.cncf.model.config.v1+json"
    told = json.loads(blob(layout, config))
    assert set(told) == {"descriptor", "config", "modelfs"}
    assert told["descriptor"]["name"] == "alpha" and told["descriptor"]["licenses"] == ["mit"]
    assert told["modelfs"] == {"type": "layers", "diffIds": [layer["digest"] for layer in layers]}
    kinds = {layer["annotations"]["org.cncf.model.filepath"]: layer["mediaType"].split(".")[3] for layer in layers}
    types = {layer["mediaType"] for layer in layers}
    assert types == {f"application/vnd.cncf.model.{kind}.v1.raw" for kind in ("weight", "weight.config", "doc")}
    assert kinds["adapter_model.safetensors"] == "weight" and layers[0]["mediaType"].endswith("weight.v1.raw")
    files = source.client.show("alpha")["manifest"]["files"]
    digests = {layer["annotations"]["org.cncf.model.filepath"]: layer["digest"] for layer in layers}
    assert {file["path"]: file["digest"] for file in files}.items() <= digests.items()


def test_skopeo_copies_it_and_what_it_wrote_comes_in(exported: Exported, other: Served, tmp_path: Path) -> None:
    skopeo = shutil.which("skopeo")
    if skopeo is None:
        pytest.skip("skopeo is not installed (Debian: apt-get install skopeo)")
    ours, theirs = exported(tmp_path / "ours.tar", "oci"), tmp_path / "theirs.tar"
    for from_, to in (
        (f"oci-archive:{ours}:1.2.0", f"oci:{tmp_path}/layout:x"),
        (f"oci:{tmp_path}/layout:x", f"oci-archive:{theirs}"),
    ):
        subprocess.run([skopeo, "--insecure-policy", "copy", from_, to], check=True)
    for made in (tmp_path / "layout", theirs):
        assert other.client.packages.import_(made)["semver"] == "1.2.0"


def wrap(folder: Path, layers: list[tuple[bytes, str, dict[str, str]]], **changes: Any) -> Path:
    """A layout as another tool may write it."""
    (folder / "blobs" / "sha256").mkdir(parents=True)

    def keep(data: bytes, kind: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
        name = hashlib.sha256(data).hexdigest()
        (folder / "blobs" / "sha256" / name).write_bytes(data)
        told = {"annotations": annotations} if annotations else {}
        return {"mediaType": kind, "digest": f"sha256:{name}", "size": len(data), **told}

    manifest = {"schemaVersion": 2, "config": keep(b"{}", "application/vnd.oci.empty.v1+json"),
                "layers": [keep(*layer) for layer in layers], **changes}  # fmt: skip
    listed = keep(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [listed]}))
    return folder


RAW = "application/vnd.cncf.model.weight.v1.raw"
TAR = "application/vnd.cncf.model.weight.v1.tar"


def title(path: str) -> dict[str, str]:
    return {"org.opencontainers.image.title": path}


def tarred(name: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def test_what_oras_and_modctl_write_comes_in(source: Served, other: Served, tmp_path: Path) -> None:
    config, weights = (
        (source.folder / "alpha" / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")
    )
    layers = [(config, "application/json", title("adapter_config.json")),
              (tarred("adapter_model.safetensors", weights), TAR, {})]  # fmt: skip
    version = other.client.packages.import_(wrap(tmp_path / "layout", layers), "beta")
    assert version["digest"] == source.client.show("alpha")["digest"]
    assert version["metadata"]["labels"]["imported_from"] == {"source": "layout", "format": "oci"}


@pytest.mark.parametrize(
    ("layers", "error"),
    [
        ([(b"x", RAW, title("../x"))], InvalidRequest),
        ([(b"x", RAW, title("/x"))], InvalidRequest),
        ([(b"x", RAW, title("x")), (b"y", RAW, title("X"))], InvalidRequest),
        ([(b"x", RAW, title("x")), (b"y", RAW, title("x"))], InvalidRequest),
        ([(tarred("../x", b"x"), TAR, {})], InvalidRequest),
        ([(b"no tar", TAR, {})], InvalidRequest),
        ([(b"x", TAR + "+gzip", title("x"))], Refused),
        ([(b"x", RAW, {})], Refused),
        ([(b"{}", RAW, title("oci-layout"))], Refused),
        ([(b"x", RAW, title("x"))], Refused),
        ([], InvalidRequest),
    ],
)
def test_layers_that_are_not_taken(
    layers: list[tuple[bytes, str, dict[str, str]]], error: type[GraftworkError], tmp_path: Path
) -> None:
    with pytest.raises(error):
        read_package(read_directory(wrap(tmp_path / "layout", layers)), "it")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("index.json", '{"schemaVersion": 2, "manifests": []}', Refused),
        ("index.json", '{"schemaVersion": 2, "manifests": [1]}', InvalidRequest),
        ("index.json", '{"schemaVersion": 2, "manifests": [{"digest": "sha256:../../x"}]}', InvalidRequest),
        ("index.json", '{"schemaVersion": 2, "manifests": [{"digest": "sha256:' + "0" * 64 + '"}]}', Damaged),
        ("index.json", '{"schemaVersion": 1, "manifests": []}', InvalidRequest),
        ("index.json", "[" * 100_000, InvalidRequest),
        ("index.json", "no JSON", InvalidRequest),
        ("oci-layout", '{"imageLayoutVersion": "2.0.0"}', Refused),
    ],
)
def test_layouts_that_are_not_taken(
    layout: Path, name: str, text: str, error: type[GraftworkError], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(layout, tmp_path / "copy"))
    (folder / name).write_text(text)
    with pytest.raises(error), opened(str(folder)):
        pass


def test_of_several_artifacts_none_is_guessed(layout: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(layout, tmp_path / "copy"))
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "manifests": index["manifests"] * 2}))
    with pytest.raises(Refused, match="holds 2 artifacts"), opened(str(folder)):
        pass
