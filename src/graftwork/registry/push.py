"""PushService: blobs, then the account, then the row; a version is seen only when whole and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from graftwork.access.names import check_name
from graftwork.access.tenants import check_tenant
from graftwork.adapters.outline import Outline
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.check_stored import check_stored
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Transaction
from graftwork.errors import Conflict, GraftworkError, InvalidMetadata, InvalidRequest, NotFound, Refused, Unavailable
from graftwork.protocol.canonical import canonical
from graftwork.protocol.metadata import read_metadata
from graftwork.registry.idempotency import Once
from graftwork.registry.metadata import completed
from graftwork.registry.registry import Registry
from graftwork.registry.retention.collection import collected_since
from graftwork.registry.retention.owner import claim
from graftwork.registry.search.described import described_by
from graftwork.registry.semantic_version import parse_semver
from graftwork.registry.versions import Version

if TYPE_CHECKING:
    from graftwork.adapters.identity import AdapterIdentity

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


def _identity_of(folder: Path) -> AdapterIdentity:
    from graftwork.adapters.identity import identify  # it needs numpy; most calls do not

    return identify(folder)


class PushService:
    """Registers bundles whose blobs have been stored.

    Args:
        outline_of: the base that versions are accounted against.
        account_of: the account of an unpacked bundle against that base.
        max_bundle_bytes: how much the files of one bundle may have together, each path counted.
        identity_of: what the files of an unpacked bundle say that they are; for tests.
        record_base: makes sure that the base has a record with this tenant; told tenant and actor.
    """

    def __init__(
        self,
        registry: Registry,
        store: BlobStore,
        working_copies: WorkingCopies,
        outline_of: Callable[[], Outline],
        account_of: Callable[[Path], AccountLike],
        max_bundle_bytes: int = MAX_BUNDLE_BYTES,
        identity_of: Callable[[Path], AdapterIdentity] = _identity_of,
        record_base: Callable[[str, str], object] = lambda tenant, actor: None,
    ) -> None:
        self._registry = registry
        self._store = store
        self._working_copies = working_copies
        self._outline_of = outline_of
        self._account_of = account_of
        self._max_bundle_bytes = max_bundle_bytes
        self._identity_of = identity_of
        self._record_base = record_base

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
            InvalidRequest: the name or the version.
            InvalidMetadata: the metadata do not follow their schema, or contradict the files.
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
        said = self._said(tenant, metadata or {})
        self._check_size(name, manifest)
        outline = self._outline_of()
        if name == outline.base:
            raise Conflict(f"{name} is the name of the base model; push the adapter under another name.")
        seen = self._registry.position()  # before the blobs, so that no collection after this goes unnoticed
        check_stored(self._store, tenant, manifest)
        registered = partial(self._is_registered, tenant, manifest)
        with self._working_copies.trial(tenant, manifest, keep=registered) as folder:
            account, identity = self._account(name, folder)
            kind = account.kind or "unknown"
            self._record_base(tenant, actor)
            version, created = self._registry.push(
                tenant,
                name,
                manifest,
                semver=semver,
                kind=kind,
                base=outline.base,
                base_digest=outline.weights_digest,
                rank=account.rank,
                bytes=account.bytes,
                account=account.to_json(),
                semantic_digest=identity.semantic_digest,
                metadata=completed(said, outline, identity, kind=kind, rank=account.rank),
                said=said,
                described=described_by(folder),
                actor=actor,
                once=once,
                still_stored=lambda tx: self._check_again(tx, tenant, manifest, seen),
            )
        claim(self._store, tenant, lambda: self._registry.history(tenant, name)[-1].hash)
        return PushResult(version, created, account)

    def _said(self, tenant: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The metadata as they were said, with the versions they name by digest: other references move."""
        said = read_metadata(canonical(metadata, what="metadata"))
        for key in ("parents", "merged_from"):
            if named := said.get(key):
                said[key] = [self._pinned(tenant, f"metadata.{key}.{at}", text) for at, text in enumerate(named)]
        return said

    def _pinned(self, tenant: str, field: str, reference: str) -> str:
        try:
            parent = self._registry.show(tenant, reference)
        except (InvalidRequest, NotFound) as error:
            raise InvalidMetadata(f"{field} must be a version of yours. {error.message}", field=field) from error
        return f"{parent.adapter}@{parent.digest}"

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

    def _check_again(self, tx: Transaction, tenant: str, manifest: Manifest, seen: int) -> None:
        """In the transaction that makes the row, and that no collection can run beside: see `collection.py`."""
        if collected_since(tx, tenant, seen):
            check_stored(self._store, tenant, manifest)

    def _account(self, name: str, folder: Path) -> tuple[AccountLike, AdapterIdentity]:
        try:
            account = self._account_of(folder)
            if account.ok:
                return account, self._identity_of(folder)
        except OSError as error:  # another process that shares the folder needed its room
            raise Unavailable(f"The files of {name} could not be read ({error.strerror}); push it again.") from error
        first = account.problems[0] if account.problems else "its account is not in order"
        raise Refused(f"The adapter {name} cannot be served: {first}", problems=account.problems)
