"""Reading: an adapter as it stands in the database, and the version a reference names there."""

from __future__ import annotations

from sqlalchemy import and_, select

from graftwork.access.names import check_name
from graftwork.db import Transaction
from graftwork.db.schema import adapters
from graftwork.errors import NotFound
from graftwork.registry import versions
from graftwork.registry.adapters import has_versions
from graftwork.registry.aliases import aliases_of
from graftwork.registry.reference import Digest, Newest, Reference, Selector, Semver, Sequence, parse_reference
from graftwork.registry.rules.standing import standing_of, standings_at
from graftwork.registry.versions import Version, version_at, versions_of
from graftwork.registry.view import AdapterView


def parsed(reference: Reference | str) -> Reference:
    return parse_reference(reference) if isinstance(reference, str) else reference


def view_of(tx: Transaction, tenant: str, name: str) -> AdapterView:
    """An adapter with all its versions.

    Raises:
        NotFound: this tenant has no such adapter.
    """
    return _view(tx, tenant, Reference(None, check_name(name, what="adapter"), Newest()))


def view_for(tx: Transaction, tenant: str, reference: Reference) -> AdapterView:
    """The adapter that a reference speaks of; another tenant's is not found, whether it exists or not."""
    if reference.tenant not in (None, tenant):
        raise nowhere(f"{reference.tenant}/{reference.name}")
    return _view(tx, tenant, reference)


def _view(tx: Transaction, tenant: str, reference: Reference) -> AdapterView:
    name = check_name(reference.name, what="adapter")
    pointers = aliases_of(tx, tenant, [name]).get(name, {})
    view = AdapterView.of(versions_of(tx, tenant, name), pointers, standing_of(tx, tenant, name))
    if view is None:
        raise missing(tx, tenant, reference)
    return view


def check_adapter(tx: Transaction, tenant: str, name: str) -> None:
    """Raises NotFound where this tenant has no such adapter."""
    own = and_(adapters.c.tenant == tenant, adapters.c.name == check_name(name, what="adapter"), has_versions())
    if tx.execute(select(adapters.c.name).where(own)).first() is None:
        raise missing(tx, tenant, Reference(None, name, Newest()))


def find(tx: Transaction, view: AdapterView, reference: Reference) -> Version:
    """The version a reference names.

    Raises:
        NotFound: none, or more than one (a digest prefix that is too short).
    """
    found = view.find(reference.selector)
    if found is None:
        raise missing(tx, view.tenant, reference)
    return found


def missing(tx: Transaction, tenant: str, reference: Reference) -> NotFound:
    """Why a tenant's reference names no version: it was deleted, and when; or there never was one, or it fits more."""
    name, taken = reference.name, versions.taken(tx, tenant, reference.name)
    gone = [one.deleted_at for one in taken if one.deleted_at is not None and _fits(one, reference.selector)]
    if gone:
        return NotFound(f"{reference} was deleted at {max(gone)}; `graftwork history {name}` tells of it.")
    if any(one.deleted_at is None for one in taken):
        return NotFound(f"There is no version {reference}. `graftwork list {name}` shows what there is.")
    if taken:
        return NotFound(f"All versions of {name} were deleted; `graftwork history {name}` tells of it.")
    return nowhere(name)


def nowhere(name: str) -> NotFound:
    return NotFound(f"There is no adapter {name}. `graftwork list` shows what there is.")


def _fits(one: versions.Taken, selector: Selector) -> bool:
    match selector:
        case Semver(version):
            return one.semver == version
        case Digest(prefix):
            return one.digest.startswith(prefix)
        case Sequence(number):
            return one.sequence == number
    return False


def whole(tx: Transaction, version: Version) -> Version:
    """The version as it stands now, with its metadata and its account."""
    pointers = aliases_of(tx, version.tenant, [version.adapter]).get(version.adapter, {})
    found = version_at(tx, version.tenant, version.adapter, version.sequence)
    held = (alias for alias, sequence in pointers.items() if sequence == version.sequence)
    standings = standings_at(tx, version.tenant, [(version.adapter, version.sequence)])
    return standings.of(version.tenant, version.adapter).of(found.with_aliases(held))
