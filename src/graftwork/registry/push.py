"""PushService: blobs, then the account, then the row; a version is seen only when whole and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from graftwork.access.names import check_name
from graftwork.access.tenants import check_tenant
from graftwork.adapters.outline import Outline
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Transaction
from graftwork.errors import Conflict, GraftworkError, Refused, Unavailable
from graftwork.registry.idempotency import Once
from graftwork.registry.registry import Registry
from graftwork.registry.retention.collection import collected_since
from graftwork.registry.semantic_version import parse_semver
from graftwork.registry.versions import Version

SHOWN_FILES = 20
MAX_BUNDLE_BYTES = 8 << 30


class AccountLike(Protocol):
    """What became of every tensor of an adapter (`adapters.account.Account`)."""

    @property
    def ok(self) -> bool: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def problems(self) -> Sequence[str]: ...
    @property
    def rank(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class PushResult:
    version: Version
    created: bool  #: False: the same bytes were there already
    account: AccountLike


class PushService:
    """Registers bundles whose blobs have been stored.

    Args:
        outline_of: the base that versions are accounted against.
        account_of: the account of an unpacked bundle against that base.
        max_bundle_bytes: how much the files of one bundle may have together, each path counted.
    """

    def __init__(
        self,
        registry: Registry,
        store: BlobStore,
        working_copies: WorkingCopies,
        outline_of: Callable[[], Outline],
        account_of: Callable[[Path], AccountLike],
        max_bundle_bytes: int = MAX_BUNDLE_BYTES,
    ) -> None:
        self._registry = registry
        self._store = store
        self._working_copies = working_copies
        self._outline_of = outline_of
        self._account_of = account_of
        self._max_bundle_bytes = max_bundle_bytes

    def push(
        self,
        tenant: str,
        name: str,
        manifest: Manifest,
        *,
        semver: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        actor: str,
        once: Once | None = None,
    ) -> PushResult:
        """Check the bundle from its bytes up and register it. What is refused leaves no working copy behind.

        Raises:
            InvalidRequest: the name, the version or the metadata.
            Conflict: blobs are missing (they are listed: upload them and push again), the name is the base's,
                or as `Registry.push`.
            Damaged: a stored blob no longer matches its digest.
            Unavailable: the working copy cannot be written, or went away while it was read.
            Refused: the bundle is too large, or the adapter cannot be served on this base; `problems` says
                why, file by file or tensor by tensor.
        """
        check_tenant(tenant)
        check_name(name, what="adapter")
        if semver is not None:
            parse_semver(semver)
        self._check_size(name, manifest)
        outline = self._outline_of()
        if name == outline.base:
            raise Conflict(f"{name} is the name of the base model; push the adapter under another name.")
        seen = self._registry.position()  # before the blobs, so that no collection after this goes unnoticed
        self._check_blobs(tenant, manifest)
        registered = partial(self._is_registered, tenant, manifest)
        with self._working_copies.trial(tenant, manifest, keep=registered) as folder:
            account = self._account(name, folder)
            version, created = self._registry.push(
                tenant,
                name,
                manifest,
                semver=semver,
                kind=account.kind or "unknown",
                base=outline.base,
                base_digest=outline.weights_digest,
                rank=account.rank,
                bytes=account.bytes,
                account=account.to_json(),
                metadata=metadata,
                actor=actor,
                once=once,
                still_stored=lambda tx: self._check_again(tx, tenant, manifest, seen),
            )
        return PushResult(version, created, account)

    def _check_size(self, name: str, manifest: Manifest) -> None:
        if manifest.bytes > self._max_bundle_bytes:
            raise Refused(
                f"The files of {name} have {manifest.bytes} bytes together; a bundle may have "
                f"{self._max_bundle_bytes}. Leave out what serving the adapter does not need."
            )

    def _is_registered(self, tenant: str, manifest: Manifest) -> bool:
        try:
            return self._registry.has_digest(tenant, manifest.digest())
        except GraftworkError:  # a copy too many is better than one that a version misses
            return True

    def _check_blobs(self, tenant: str, manifest: Manifest) -> None:
        missing = [file for file in manifest.files if self._store.has(tenant, file.digest) != file.size]
        if missing:
            listed = "; ".join(self._missing(tenant, file) for file in missing[:SHOWN_FILES])
            rest = f"; and {len(missing) - SHOWN_FILES} more" if len(missing) > SHOWN_FILES else ""
            raise Conflict(f"Upload these blobs, then push again: {listed}{rest}.")

    def _check_again(self, tx: Transaction, tenant: str, manifest: Manifest, seen: int) -> None:
        """In the transaction that makes the row, and that no collection can run beside: see `collection.py`."""
        if collected_since(tx, tenant, seen):
            self._check_blobs(tenant, manifest)

    def _missing(self, tenant: str, file: BundleFile) -> str:
        stored = self._store.has(tenant, file.digest)
        why = "" if stored is None else f" (stored with {stored} bytes, the manifest says {file.size})"
        return f"{file.path} {file.digest}{why}"

    def _account(self, name: str, folder: Path) -> AccountLike:
        try:
            account = self._account_of(folder)
        except OSError as error:  # another process that shares the folder needed its room
            raise Unavailable(f"The files of {name} could not be read ({error.strerror}); push it again.") from error
        if not account.ok:
            first = account.problems[0] if account.problems else "its account is not in order"
            raise Refused(f"The adapter {name} cannot be served: {first}", problems=account.problems)
        return account
