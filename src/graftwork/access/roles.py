"""Roles and scopes: what somebody may do; a door asks for one right (`gateway/doors.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Literal


class Right(StrEnum):
    """One thing to be allowed; rights do not contain one another."""

    CALL = "call"  #: have models answer
    READ = "read"  #: see the tenant's versions, evaluations, events …
    TEXTS = "texts"  #: see what was said in answers, where that is kept
    DEPLOY = "deploy"  #: push, promote, roll back, load
    APPROVE = "approve"  #: approve and reject versions
    ADMINISTER = "administer"  #: keys, users, grants, policies, deletion
    OPERATE = "operate"  #: the server itself: tenants, metrics, whatever is of nobody in particular


Role = Literal["viewer", "deployer", "approver", "admin"]
Scope = Literal["inference", "read", "texts", "manage"]

ALL: Final = frozenset(Right)
_SEE: Final = frozenset({Right.CALL, Right.READ})
ROLES: Final[Mapping[str, frozenset[Right]]] = {
    "viewer": _SEE,
    "deployer": _SEE | {Right.DEPLOY},
    "approver": _SEE | {Right.APPROVE},
    "admin": ALL,
}
#: What a key is for at most, whatever the role of whoever holds it.
SCOPES: Final[Mapping[str, frozenset[Right]]] = {
    "inference": frozenset({Right.CALL}),
    "read": frozenset({Right.READ}),
    "texts": frozenset({Right.TEXTS}),
    "manage": ALL - _SEE - {Right.TEXTS},
}


def rights_of(roles: Iterable[str], scopes: Iterable[str]) -> frozenset[Right]:
    """What all of these roles allow and one of these scopes is for."""
    allowed = ALL
    for role in roles:
        allowed &= ROLES[role]
    return allowed & frozenset[Right]().union(*(SCOPES[scope] for scope in scopes))
