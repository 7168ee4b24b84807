"""API keys: how they are written, what is kept of them, and how one is recognised."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.access.access import Access
from graftwork.access.keys import Key, hash_of, new_key, public_id
from graftwork.access.roles import Right
from graftwork.access.tenants import LOCAL
from graftwork.access.users import User

AT = "2026-01-01T00:00:00.000000Z"
LATER = "2026-01-02T00:00:00.000000Z"


def key_of(token: str, **more: object) -> Key:
    known: dict[str, object] = {
        "tenant": "acme",
        "id": public_id(token),
        "name": "",
        "role": "admin",
        "scopes": ("inference", "read", "manage"),
        "user": None,
        "family": "0" * 16,
        "created_at": AT,
        "created_by": "me",
        "hash": hash_of(token),
    }
    return Key(**{**known, **more})  # type: ignore[arg-type]


def access_of(*keys: Key, **more: object) -> Access:
    return Access(keys={key.id: key for key in keys}, **more)  # type: ignore[arg-type]


def test_a_key_holds_256_random_bits_and_only_its_hash_is_kept() -> None:
    public, token = new_key()
    assert token.startswith(f"gw_{public}_") and len(token.rpartition(f"{public}_")[2]) == 43
    assert len({new_key()[1] for _ in range(100)}) == 100
    kept = key_of(token)
    assert token[-43:] not in repr(kept) + str(kept.to_json(AT))
    assert kept.hash not in repr(kept) + str(kept.to_json(AT))


def test_only_the_whole_key_is_the_key() -> None:
    _, token = new_key()
    access = access_of(key_of(token))
    found = access.identify(token, AT)
    assert found is not None and (found.tenant, found.key) == ("acme", public_id(token))
    other = "A" if token[-1] != "A" else "B"
    for wrong in (token[:-1] + other, token[:-1], token + "A", token.upper(), f" {token}", "", new_key()[1]):
        assert access.identify(wrong, AT) is None


@given(st.text(max_size=100))
def test_no_other_text_is_a_key_or_an_error(text: str) -> None:
    _, token = new_key()
    assert access_of(key_of(token)).identify(text, AT) is None


@pytest.mark.parametrize("wrong", ["unknown", "secret", "malformed"])
def test_a_wrong_key_costs_one_hash_and_one_comparison_as_a_right_one_does(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = new_key()
    access, compared = access_of(key_of(token)), list[tuple[int, int]]()
    real = hmac.compare_digest

    def counting(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return real(one, other)

    monkeypatch.setattr("graftwork.access.keys.hmac.compare_digest", counting)
    given = {"unknown": new_key()[1], "secret": token[:-2] + "__", "malformed": "gw_x"}[wrong]
    assert access.identify(given, AT) is None
    assert access.identify(token, AT) is not None
    assert compared == [(64, 64), (64, 64)]


def test_a_key_is_over_when_it_expires_or_is_revoked() -> None:
    _, token = new_key()
    assert access_of(key_of(token, expires_at=LATER)).identify(token, AT) is not None
    for over in ({"expires_at": AT}, {"expires_at": LATER, "revoked_at": AT}, {"revoked_at": AT}):
        assert access_of(key_of(token, **over)).identify(token, AT) is None
    assert key_of(token, expires_at=AT, revoked_at=AT).state(LATER) == "revoked"


def test_a_users_key_can_do_no_more_than_their_role_and_nothing_once_they_are_gone() -> None:
    _, token = new_key()
    ann = User("acme", "ann", "viewer", "", AT, "me")
    access = access_of(key_of(token, user="ann"), users={("acme", "ann"): ann})
    found = access.identify(token, AT)
    assert found is not None and (found.name, found.user) == ("ann", "ann")
    assert found.rights == {Right.CALL, Right.READ}
    assert access_of(key_of(token, user="ann"), users={("zeta", "ann"): ann}).identify(token, AT) is None


def test_a_programs_key_is_one_actor_however_often_it_is_replaced() -> None:
    names = set()
    for _ in range(2):
        _, token = new_key()
        found = access_of(key_of(token, family="f" * 16)).identify(token, AT)
        assert found is not None
        names.add(found.name)
    assert names == {"key:" + "f" * 16}


def test_only_the_local_tenants_administrators_operate_the_server() -> None:
    tokens = {tenant: new_key()[1] for tenant in ("acme", LOCAL)}
    access = access_of(*(key_of(token, tenant=tenant) for tenant, token in tokens.items()))
    for tenant, token in tokens.items():
        found = access.identify(token, AT)
        assert found is not None and (Right.OPERATE in found.rights) == (tenant == LOCAL)
    assert access.has_admin(AT) and not access_of(key_of(tokens["acme"])).has_admin(AT)
    assert not access_of(key_of(tokens[LOCAL], tenant=LOCAL, scopes=("inference",))).has_admin(AT)
