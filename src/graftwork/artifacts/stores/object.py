"""ObjectStore: blobs as objects `<prefix>/<tenant>/sha256/ab/<hex>` of a bucket in S3, Google Cloud Storage or Azure.

Credentials, endpoint and server-side encryption come from the environment, under the names that each cloud's own
tools use. Decision 0025 says how put-once, versioning and retries go together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.digest import arrives, check_digest, digest_named, hex_of, verified
from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores.form import FOLDERS, NOTE, PLAIN, QUARANTINE, Form, pieces
from graftwork.errors import Damaged, Unavailable

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ClientConfig, RetryConfig

#: Bytes of one request. S3 takes up to 10,000 parts: blobs of up to 80 GB.
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 4
TIMEOUT_S = 60.0  # of one request, from connecting to its last byte
RETRY: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=30),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5)},
}
#: Object stores that speak plain HTTP are for tests and for networks that somebody else protects.
_ALLOW_HTTP = ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "GOOGLE_ALLOW_HTTP")


class ObjectStore:
    """A `BlobStore`; `url` is `s3://bucket/prefix`, `gs://…` or `az://…`."""

    def __init__(self, url: str, form: Form = PLAIN) -> None:
        self._place = url
        self._form = form
        client: ClientConfig = {
            "timeout": timedelta(seconds=TIMEOUT_S),
            "connect_timeout": timedelta(seconds=5),
            "allow_http": any(os.environ.get(name, "").lower() in ("1", "true") for name in _ALLOW_HTTP),
        }
        with self._translated("used"):
            self._store = from_url(url, client_options=client, retry_config=RETRY)

    @classmethod
    def at(cls, url: str, form: Form) -> ObjectStore:
        return cls(url, form)

    def put(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> int:
        key = self._key(tenant, digest)
        blob = verified(chunks, digest, what=f"Upload of {digest}")
        there = self._stored_size(key)
        if there is not None and arrives(self.open(tenant, digest)):
            return sum(map(len, blob))
        if there:
            self._keep_damage(tenant, digest)
        parts = pieces(self._form.stored(tenant, digest, blob), PART_BYTES)
        first, second = next(parts, b""), next(parts, None)
        with self._translated("written"):
            if second is None:
                with suppress(AlreadyExistsError):  # somebody was faster, with the same bytes
                    obstore.put(self._store, key, first, mode="create" if there is None else "overwrite")
                size = len(first)
            else:
                size = self._put_in_parts(key, chain((first, second), parts))
        return self._form.plain_size(size)

    def has(self, tenant: str, digest: str) -> int | None:
        size = self._stored_size(self._key(tenant, digest))
        if size is None or (not size and not arrives(self.open(tenant, digest))):  # or only its place, which is empty
            return None
        return self._form.plain_size(size)

    def open(self, tenant: str, digest: str) -> Iterator[bytes]:
        stored = self._chunks(self._key(tenant, digest), digest)
        return verified(self._form.plain(tenant, digest, stored), digest, what=f"Blob {digest} of {tenant}")

    def set_aside(self, tenant: str, digest: str) -> None:
        # Nothing is deleted: in the moment before, somebody may put the right bytes. The object is emptied if it is
        # still the one that was read.
        key = self._key(tenant, digest)
        with self._translated("written"), suppress(FileNotFoundError, PreconditionError):
            seen = obstore.head(self._store, key)
            if seen["size"] and not arrives(self.open(tenant, digest)):
                self._keep_damage(tenant, digest)
                same: UpdateVersion = {"e_tag": seen["e_tag"]}
                if seen["version"] is not None:
                    same["version"] = seen["version"]
                obstore.put(self._store, key, b"", mode=same)

    def list(self, tenant: str, *, aside: bool = False) -> Iterator[Stored]:
        folders = (QUARANTINE,) if aside else FOLDERS
        return chain.from_iterable(self._objects(f"{check_tenant(tenant)}/{folder}/") for folder in folders)

    def delete(self, tenant: str, digest: str, *, aside: bool = False) -> None:
        for folder in (QUARANTINE,) if aside else FOLDERS:
            with self._translated("written"), suppress(FileNotFoundError):
                obstore.delete(self._store, self._key(tenant, digest, folder))

    def note(self, tenant: str) -> str | None:
        with self._translated("read"):
            try:
                return bytes(obstore.get(self._store, f"{check_tenant(tenant)}/{NOTE}").bytes()).decode(
                    errors="replace"
                )
            except FileNotFoundError:
                return None

    def set_note(self, tenant: str, text: str) -> None:
        with self._translated("written"):
            obstore.put(self._store, f"{check_tenant(tenant)}/{NOTE}", text.encode())

    def _key(self, tenant: str, digest: str, folder: str = "") -> str:
        name, own = hex_of(check_digest(digest)), check_tenant(tenant)
        if folder == QUARANTINE:
            return f"{own}/{folder}/{name}"
        return f"{own}/{folder or self._form.folder}/{name[:2]}/{name}"

    def _objects(self, prefix: str) -> Iterator[Stored]:
        with self._translated("read"):
            for page in obstore.list(self._store, prefix):
                for found in page:
                    if (digest := digest_named(found["path"].rpartition("/")[2])) is not None:
                        yield Stored(digest, found["size"], found["last_modified"].timestamp())

    def _stored_size(self, key: str) -> int | None:
        with self._translated("read"):
            try:
                size: int = obstore.head(self._store, key)["size"]
            except FileNotFoundError:
                return None
        return size

    def _keep_damage(self, tenant: str, digest: str) -> None:
        with self._translated("written"), suppress(FileNotFoundError):
            obstore.copy(self._store, self._key(tenant, digest), self._key(tenant, digest, QUARANTINE))

    def _put_in_parts(self, key: str, parts: Iterable[bytes]) -> int:
        # Visible when the last part was acknowledged and not before; when the parts break off, none stays. Writers
        # of one blob at once replace one another's bytes by the same bytes.
        sizes: list[int] = []

        def counted() -> Iterator[bytes]:
            for part in parts:
                sizes.append(len(part))
                yield part

        obstore.put(
            self._store,
            key,
            counted(),
            use_multipart=True,
            chunk_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )
        return sum(sizes)

    def _chunks(self, key: str, digest: str) -> Iterator[bytes]:
        # A request per part, so that each is bounded in time and tried again by itself.
        try:
            with self._translated("read"):
                size = obstore.head(self._store, key)["size"]
            for start in range(0, size, PART_BYTES):
                with self._translated("read"):
                    part = obstore.get_range(self._store, key, start=start, end=min(start + PART_BYTES, size))
                yield bytes(part)
        except FileNotFoundError as exc:
            raise Damaged(f"The blob {digest} is missing. Upload its file again.") from exc

    @contextmanager
    def _translated(self, how: str) -> Iterator[None]:
        try:
            yield
        except BaseError as exc:
            # Not chained, and without queries and bodies: the whole error may hold a signature.
            reason = re.sub(r"\?\S*|: <.*", "", (str(exc).splitlines() or [""])[0])
            raise Unavailable(f"The artifact store {self._place} cannot be {how}: {reason.strip()}.") from None
