"""Version: an adapter's content at one push, immutable; and the SQL of versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, func, select, update

from graftwork.artifacts.bundle import Manifest
from graftwork.db import Transaction
from graftwork.db.keys import rows_at
from graftwork.db.schema import versions
from graftwork.errors import Conflict, InvalidRequest
from graftwork.protocol.canonical import canonical, parse, sha256
from graftwork.registry.frozen import FrozenDict, freeze
from graftwork.registry.rules.approval import Approval
from graftwork.registry.rules.deprecation import Deprecation
from graftwork.registry.rules.stages import Stage

#: What only reads of one version bring.
HEAVY = ("metadata", "account")
_WHERE_READ = (*HEAVY, "same_content_as")
#: What marks a deleted version: no field of one, since nobody sees it any more.
MARK = "deleted_at"


@dataclass(frozen=True)
class Version:
    """One version. Everything but its `state` stays as it was registered."""

    tenant: str
    adapter: str
    semver: str
    sequence: int  #: 1 for the first push of this adapter, then consecutive
    digest: str  #: of the manifest: the identity
    manifest: Manifest
    stage: Stage
    kind: str
    base: str  #: name of the base it was accounted against
    base_digest: str  #: weights digest of that base
    rank: int  #: largest of its modules
    bytes: int  #: of its tensors
    created_at: str  #: RFC 3339, UTC, microseconds
    created_by: str
    # Both may be long: None where the read left them out (lists and snapshots do).
    metadata: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    #: What became of every tensor.
    account: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    #: Of what the adapter computes, however its files were written; None of versions older than this field.
    semantic_digest: str | None = None
    #: The earliest version of this adapter before it with that digest; filled by reads of one version.
    same_content_as: str | None = field(default=None, compare=False)
    # Filled by reads, as the stage is.
    aliases: tuple[str, ...] = ()  #: sorted
    approval: Approval = "pending"
    signed_by: tuple[str, ...] = ()  #: fingerprints of public keys, sorted
    deprecated: Deprecation | None = None
    forbidden: tuple[str, ...] = ()  #: why the policy forbids to serve it

    @property
    def label(self) -> str:
        """`name:1.4.0`, as answers name it."""
        return f"{self.adapter}:{self.semver}"

    def brief(self) -> dict[str, Any]:
        """How events name a version."""
        return {"sequence": self.sequence, "version": self.semver, "digest": self.digest}

    def to_json(self) -> dict[str, Any]:
        """Every field as JSON; `metadata`, `account` and `same_content_as` are left out where there are none."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        data |= {"manifest": self.manifest.to_json(), **self.state()}
        return {name: value for name, value in data.items() if name not in _WHERE_READ or value is not None}

    def state(self) -> dict[str, Any]:
        """What may change of it, as JSON."""
        return {
            "stage": self.stage,
            "aliases": list(self.aliases),
            "approval": self.approval,
            "signed_by": list(self.signed_by),
            "deprecated": self.deprecated.to_json() if self.deprecated else None,
            "forbidden": list(self.forbidden),
        }

    def with_state(self, state: Mapping[str, Any]) -> Version:
        """The version in a state that `state` told of."""
        deprecated = state.get("deprecated")
        return replace(
            self,
            stage=state["stage"],
            aliases=tuple(state["aliases"]),
            approval=state.get("approval", "pending"),
            signed_by=tuple(state.get("signed_by", ())),
            deprecated=Deprecation.from_json(deprecated) if deprecated else None,
            forbidden=tuple(state.get("forbidden", ())),
        )

    @property
    def etag(self) -> str:
        """Another one whenever anything of the version has changed."""
        return sha256(canonical([self.tenant, self.adapter, self.sequence, self.state()], what="state"))

    def with_aliases(self, aliases: Iterable[str]) -> Version:
        return replace(self, aliases=tuple(sorted(aliases)))

    @classmethod
    def from_row(cls, row: Row[Any]) -> Version:
        values = dict(row._mapping)
        values["manifest"] = Manifest.from_json(parse(values["manifest"]))
        for name in HEAVY:
            if name in values:
                values[name] = freeze(parse(values[name]))
        return cls(**values)


def frozen_json(value: Mapping[str, Any], *, what: str, max_bytes: int) -> FrozenDict:
    """A frozen copy that reads exactly as it will read from the database.

    Raises:
        InvalidRequest: it is not a JSON object, or longer than `max_bytes` as text.
    """
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{what} must be a JSON object, not {type(value).__name__}.", field=what)
    text = canonical(dict(value), what=what)
    if len(text.encode()) > max_bytes:
        raise InvalidRequest(f"{what} is longer than {max_bytes} bytes; put it into a file of the bundle.", field=what)
    frozen = freeze(parse(text))
    assert isinstance(frozen, FrozenDict), "a mapping freezes to a mapping"
    return frozen


WHOLE = [column for column in versions.c if column.name != MARK]
LIGHT = [column for column in WHOLE if column.name not in HEAVY]
#: Condition of every read of what there is; whoever reads `versions` by SQL of his own needs it too.
LIVE = versions.c.deleted_at.is_(None)


def all_versions(tx: Transaction) -> list[Version]:
    """Every tenant's versions without metadata and account, each adapter's in the order they were pushed."""
    query = select(*LIGHT).where(LIVE).order_by(versions.c.tenant, versions.c.adapter, versions.c.sequence)
    return [Version.from_row(row) for row in tx.execute(query)]


def versions_of(tx: Transaction, tenant: str, adapter: str) -> list[Version]:
    """One adapter's versions without metadata and account, in the order they were pushed."""
    query = select(*LIGHT).where(_of(tenant, adapter), LIVE).order_by(versions.c.sequence)
    return [Version.from_row(row) for row in tx.execute(query)]


def ever_of(tx: Transaction, tenant: str, adapter: str) -> list[Version]:
    """The same with those that were deleted."""
    query = select(*LIGHT).where(_of(tenant, adapter)).order_by(versions.c.sequence)
    return [Version.from_row(row) for row in tx.execute(query)]


def versions_at(tx: Transaction, tenant: str, wanted: Iterable[tuple[str, int]]) -> list[Version]:
    """The versions at these (adapter, sequence) pairs, without metadata and account."""
    keys = sorted({(tenant, adapter, sequence) for adapter, sequence in wanted})
    columns = (versions.c.tenant, versions.c.adapter, versions.c.sequence)
    return [Version.from_row(row) for row in rows_at(tx, select(*LIGHT), columns, keys)]


def counts(tx: Transaction, tenant: str, adapters: Iterable[str]) -> dict[str, tuple[int, int]]:
    """How many versions each of these adapters has, and the sequence number of its newest."""
    query = (
        select(versions.c.adapter, func.count().label("number"), func.max(versions.c.sequence).label("newest"))
        .where(versions.c.tenant == tenant, versions.c.adapter.in_(list(adapters)), LIVE)
        .group_by(versions.c.adapter)
    )
    return {row.adapter: (row.number, row.newest) for row in tx.execute(query)}


def version_at(tx: Transaction, tenant: str, adapter: str, sequence: int) -> Version:
    """One version with its metadata and its account, as it is or was, and which one before it has its content.

    It must have been registered.
    """
    query = select(*WHOLE).where(_of(tenant, adapter), versions.c.sequence == sequence)
    return with_twin(tx, Version.from_row(tx.execute(query).one()))


def with_twin(tx: Transaction, version: Version) -> Version:
    """The version, saying which one before it has the same content."""
    query = (
        select(versions.c.semver)
        .where(
            _of(version.tenant, version.adapter),
            versions.c.semantic_digest == version.semantic_digest,
            versions.c.sequence < version.sequence,
            LIVE,
        )
        .order_by(versions.c.sequence)
        .limit(1)
    )
    twin = tx.execute(query).scalar() if version.semantic_digest else None
    return replace(version, same_content_as=f"{version.adapter}:{twin}" if twin else None)


def has_digest(tx: Transaction, tenant: str, digest: str) -> bool:
    """Whether any adapter of the tenant has a version with this digest."""
    query = select(versions.c.sequence).where(versions.c.tenant == tenant, versions.c.digest == digest, LIVE).limit(1)
    return tx.execute(query).first() is not None


@dataclass(frozen=True)
class Taken:
    """Numbers that an adapter has given, and to what; those of deleted versions stay taken."""

    sequence: int
    semver: str
    digest: str
    deleted_at: str | None


def taken(tx: Transaction, tenant: str, adapter: str) -> list[Taken]:
    """What an adapter's pushes have taken."""
    columns = (versions.c.sequence, versions.c.semver, versions.c.digest, versions.c.deleted_at)
    return [Taken(*row) for row in tx.execute(select(*columns).where(_of(tenant, adapter)))]


@dataclass(frozen=True)
class Named:
    """A version by its names alone."""

    adapter: str
    sequence: int
    semver: str
    digest: str

    @property
    def label(self) -> str:
        return f"{self.adapter}:{self.semver}"


def named_versions(tx: Transaction, tenant: str) -> list[Named]:
    """A tenant's versions by their names: cheap however many there are."""
    columns = (versions.c.adapter, versions.c.sequence, versions.c.semver, versions.c.digest)
    return [Named(*row) for row in tx.execute(select(*columns).where(versions.c.tenant == tenant, LIVE))]


def deleted_versions(tx: Transaction, tenant: str) -> list[Version]:
    """A tenant's deleted versions without metadata and account."""
    query = select(*LIGHT).where(versions.c.tenant == tenant, versions.c.deleted_at.is_not(None))
    return [Version.from_row(row) for row in tx.execute(query.order_by(versions.c.adapter, versions.c.sequence))]


def mark_deleted(tx: Transaction, version: Version, *, at: str) -> None:
    """From now on only the log and whoever knows the row speaks of the version; it is not in production any more."""
    where = and_(_of(version.tenant, version.adapter), versions.c.sequence == version.sequence, LIVE)
    stage = "archived" if version.stage == "production" else version.stage
    marked = tx.execute(update(versions).where(where).values(deleted_at=at, stage=stage)).rowcount
    assert marked == 1, "it was read in the same transaction, and nobody else writes meanwhile"


def insert(tx: Transaction, version: Version) -> None:
    assert None not in (version.metadata, version.account), "a version is registered with both"
    row = {column.name: getattr(version, column.name) for column in WHOLE}
    row["manifest"] = canonical(version.manifest.to_json(), what="manifest")
    row["metadata"] = canonical(version.metadata, what="metadata")
    row["account"] = canonical(version.account, what="account")
    tx.execute(versions.insert().values(row))


def set_stage(tx: Transaction, version: Version, stage: Stage) -> None:
    """Move a version from the stage it was read in to another, by compare-and-swap.

    Raises:
        Conflict: it is no longer in that stage.
    """
    where = and_(
        _of(version.tenant, version.adapter),
        versions.c.sequence == version.sequence,
        versions.c.stage == version.stage,
    )
    if tx.execute(update(versions).where(where).values(stage=stage)).rowcount != 1:
        raise Conflict(f"{version.label} is no longer in stage {version.stage}; look again and repeat.")


def _of(tenant: str, adapter: str) -> ColumnElement[bool]:
    return and_(versions.c.tenant == tenant, versions.c.adapter == adapter)
