"""Roles and scopes: a key may do what its role allows and its scopes are for."""

from __future__ import annotations

import pytest

from graftwork.access.roles import ALL, ROLES, SCOPES, Right, rights_of

EVERY = tuple(SCOPES)


@pytest.mark.parametrize(
    ("role", "scopes", "allowed"),
    [
        ("viewer", EVERY, {"call", "read"}),
        ("deployer", EVERY, {"call", "read", "deploy"}),
        ("approver", EVERY, {"call", "read", "approve"}),
        ("admin", EVERY, set(ALL)),
        ("admin", ("inference",), {"call"}),
        ("admin", ("read",), {"read"}),
        ("admin", ("texts",), {"texts"}),
        ("approver", ("texts",), set()),
        ("admin", ("manage",), {"deploy", "approve", "administer", "operate"}),
        ("viewer", ("manage",), set()),
        ("admin", (), set()),
    ],
)
def test_the_matrix(role: str, scopes: tuple[str, ...], allowed: set[str]) -> None:
    assert rights_of([role], scopes) == allowed


def test_two_roles_allow_what_both_do() -> None:
    assert rights_of(["deployer", "approver"], EVERY) == {Right.CALL, Right.READ}


def test_who_deploys_does_not_approve() -> None:
    assert not any({Right.DEPLOY, Right.APPROVE} <= rights for role, rights in ROLES.items() if role != "admin")
