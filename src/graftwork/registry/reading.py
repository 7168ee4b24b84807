"""Reading: an adapter as it stands in the database, and the version a reference names there."""

from __future__ import annotations

from sqlalchemy import and_, select

from graftwork.access.names import check_name
from graftwork.db import Transaction
from graftwork.db.schema import adapters
from graftwork.errors import NotFound
from graftwork.registry.adapters import has_versions
from graftwork.registry.aliases import aliases_of
from graftwork.registry.reference import Reference, parse_reference
from graftwork.registry.rules.standing import standing_of
from graftwork.registry.versions import Version, version_at, versions_of
from graftwork.registry.view import AdapterView


def parsed(reference: Reference | str) -> Reference:
    return parse_reference(reference) if isinstance(reference, str) else reference


def view_of(tx: Transaction, tenant: str, name: str) -> AdapterView:
    """An adapter with all its versions.

    Raises:
        NotFound: this tenant has no such adapter.
    """
    check_name(name, what="adapter")
    pointers = aliases_of(tx, tenant, [name]).get(name, {})
    view = AdapterView.of(versions_of(tx, tenant, name), pointers, standing_of(tx, tenant, name))
    if view is None:
        raise nowhere(name)
    return view


def check_adapter(tx: Transaction, tenant: str, name: str) -> None:
    """Raises NotFound where this tenant has no such adapter."""
    own = and_(adapters.c.tenant == tenant, adapters.c.name == check_name(name, what="adapter"), has_versions())
    if tx.execute(select(adapters.c.name).where(own)).first() is None:
        raise nowhere(name)


def view_for(tx: Transaction, tenant: str, reference: Reference) -> AdapterView:
    """The adapter that a reference speaks of; another tenant's is not found, whether it exists or not."""
    if reference.tenant not in (None, tenant):
        raise nowhere(f"{reference.tenant}/{reference.name}")
    return view_of(tx, tenant, reference.name)


def nowhere(name: str) -> NotFound:
    return NotFound(f"There is no adapter {name}. `graftwork list` shows what there is.")


def find(view: AdapterView, reference: Reference) -> Version:
    """The version a reference names.

    Raises:
        NotFound: none, or more than one (a digest prefix that is too short).
    """
    found = view.find(reference.selector)
    if found is None:
        raise NotFound(f"There is no version {reference}. `graftwork list {view.name}` shows what there is.")
    return found


def whole(tx: Transaction, version: Version) -> Version:
    """The version as it stands now, with its metadata and its account."""
    pointers = aliases_of(tx, version.tenant, [version.adapter]).get(version.adapter, {})
    found = version_at(tx, version.tenant, version.adapter, version.sequence)
    held = (alias for alias, sequence in pointers.items() if sequence == version.sequence)
    return standing_of(tx, version.tenant, version.adapter).of(found.with_aliases(held))
