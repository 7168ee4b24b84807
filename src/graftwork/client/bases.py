"""Bases: base models on a server, as records and as files."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from graftwork.artifacts.bundle import Manifest
from graftwork.client.folders import bring
from graftwork.client.pushes import pieces_below
from graftwork.client.uploads import missing, upload_all
from graftwork.client.wire import Json, Wire
from graftwork.errors import Damaged, InvalidRequest, NotFound
from graftwork.models.base import public_name
from graftwork.registry.reference import Digest, Newest, parse_reference

#: Of a model folder, the files that a base is loaded from.
FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")


class Bases:
    """Base models, in `Client.bases`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self) -> list[Json]:
        """Every base that a version was pushed for, or that was registered or pushed."""
        return self._wire.pages("/api/v1/bases", "bases")

    def show(self, reference: str) -> Json:
        """The base that `NAME`, the newest of that name, or `NAME@sha256:…` means, with its files."""
        name, digest = _read(reference)
        return self._wire.json("GET", f"/api/v1/bases/{name}", params={"digest": digest} if digest else None)

    def register(self) -> Json:
        """Record the base that the server serves."""
        return self._wire.json("POST", "/api/v1/bases", json={})

    def push(
        self, folder: str | Path, *, name: str | None = None, source: str | None = None, revision: str | None = None
    ) -> Json:
        """Keep a Hugging Face folder in the server's store: config, tokenizer and safetensors; no pickles.

        Only what is not there yet is sent, and large files go on where a broken connection left them.

        Args:
            name: what to call it; made of the folder's name where you say nothing.
            source: where it came from, as a hub id; the folder's name where you say nothing.

        Raises:
            Refused: it is no base that can be served rightly.
        """
        root = Path(folder).resolve()
        manifest = Manifest.of_folder(root, keep=lambda path: any(fnmatch(path, one) for one in FILES))
        body = {
            "manifest": manifest.to_json(),
            "name": name or public_name(root.name),
            "source": source or root.name,
            "revision": revision,
        }
        pieces = pieces_below(root, manifest)
        upload_all(self._wire, pieces, missing(self._wire, manifest))
        try:
            return self._wire.json("POST", "/api/v1/bases", json=body)
        except Damaged:  # a stored file went bad: the same bytes again repair it
            upload_all(self._wire, pieces, manifest.files)
            return self._wire.json("POST", "/api/v1/bases", json=body)

    def pull(self, reference: str, folder: str | Path) -> Json:
        """Bring the files of a base into a new `folder`, every byte checked; returns its record.

        What has come lies in a hidden folder beside it until all of it is there, and the next call goes on from it.

        Raises:
            NotFound: there is no such base, or the store has no files of it.
            Conflict: something else lies at `folder`, or somebody else is pulling there.
            Damaged: stored bytes are missing or wrong.
        """
        base, target = self.show(reference), Path(folder)
        if base["manifest"] is None:
            raise NotFound(f"The store has no files of the base {reference}. Push them with `graftwork base push`.")
        manifest = Manifest.from_json(base["manifest"])  # which allows no path out of the folder
        if manifest.digest() != base["manifest_digest"]:
            raise Damaged(f"The files of {reference} are not those that its record names; is this the right server?")
        bring(self._wire, manifest, target)
        return base


def _read(reference: str) -> tuple[str, str | None]:
    parsed = parse_reference(reference)
    if parsed.tenant is None and isinstance(parsed.selector, Newest):
        return parsed.name, None
    if parsed.tenant is None and isinstance(parsed.selector, Digest):
        return parsed.name, parsed.selector.prefix
    raise InvalidRequest(f"The base {reference[:200]!r} cannot be read: write NAME or NAME@sha256:…", field="base")
