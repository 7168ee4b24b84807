"""Tenants: who owns. Where nobody set one up, everything belongs to `local`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row

from graftwork.access.names import check_name
from graftwork.access.quotas import NO_QUOTAS, Quotas
from graftwork.protocol.canonical import parse

#: The tenant of whoever set nobody up, and of the server's own administrators.
LOCAL: Final = "local"


@dataclass(frozen=True)
class Tenant:
    """One organisation."""

    name: str
    display_name: str = ""
    #: Where it is at home, for routes that look at regions; "" for nowhere in particular.
    home_region: str = ""
    #: Its part of the engine beside other tenants.
    weight: float = 1.0
    quotas: Quotas = NO_QUOTAS
    #: Keeps its cached prompts apart from what others could guess; told to nobody.
    salt: str = field(default="", repr=False)
    created_at: str | None = None
    created_by: str | None = None
    #: What a request means that names nothing; None for the base.
    default_route: str | None = None

    @classmethod
    def from_row(cls, row: Row[Any]) -> Tenant:
        told = {key: value for key, value in row._mapping.items() if key not in ("tenant", "quotas")}
        return cls(name=row.tenant, quotas=Quotas(**parse(row.quotas)), **told)

    def to_json(self) -> dict[str, Any]:
        """Everything but the salt."""
        told = {key: value for key, value in vars(self).items() if key != "salt"}
        return told | {"quotas": self.quotas.to_json()}


def check_tenant(tenant: str) -> str:
    """The tenant's name as given.

    Raises:
        InvalidRequest: it is not a name.
    """
    return check_name(tenant, what="tenant")
