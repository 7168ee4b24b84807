"""Users: people of a tenant, each with a role; their keys can do no more than that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from graftwork.access.names import check_name
from graftwork.access.roles import Role
from graftwork.access.tenants import LOCAL
from graftwork.errors import InvalidRequest


@dataclass(frozen=True)
class User:
    """One person, by the name that the event log and policies call them."""

    tenant: str
    name: str
    role: Role
    display_name: str
    created_at: str
    created_by: str

    @classmethod
    def from_row(cls, row: Row[Any]) -> User:
        return cls(**row._mapping)

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "tenant"}


def check_user(name: str) -> str:
    """`name`; raises InvalidRequest where it is no name, or that of whoever works on the server's own machine."""
    if name == LOCAL:
        raise InvalidRequest(
            f"The user name {LOCAL!r} is taken: the log calls the server's own machine so.", field="name"
        )
    return check_name(name, what="user")
