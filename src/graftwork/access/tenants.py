"""Tenants: who owns. Where nobody set one up, everything belongs to `local`."""

from __future__ import annotations

from typing import Final

from graftwork.access.names import check_name

LOCAL: Final = "local"


def check_tenant(tenant: str) -> str:
    """The tenant's name as given.

    Raises:
        InvalidRequest: it is not a name.
    """
    return check_name(tenant, what="tenant")
