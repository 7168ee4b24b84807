"""The vault: hashes that only the tenant's key makes, and texts that open in their own place only."""

from __future__ import annotations

import pytest

from graftwork.errors import Damaged, Unavailable
from graftwork.traffic.records.vault import Vault
from support.keyrings import keyring

SAID = {"prompt": ["hello \ud800"], "answer": ["ok"]}


def hashed(vault: Vault, tenant: str = "local", secret: bytes = b"s" * 32) -> str:
    return vault.hasher(tenant, secret)(b"yes")


def test_hashes_differ_by_tenant_and_key_and_say_which_key() -> None:
    keyed, plain = Vault(keyring()), Vault(None)
    assert hashed(keyed) == hashed(keyed, secret=b"t" * 32), "the keyring's, where there is one"
    found = [hashed(keyed), hashed(keyed, "other"), hashed(Vault(keyring("second"))), hashed(plain)]
    found.append(hashed(plain, secret=b"t" * 32))
    assert len(set(found)) == len(found)
    assert hashed(keyed).split(":")[1] != hashed(Vault(keyring("second"))).split(":")[1]


def test_a_sealed_text_opens_in_its_own_place_only() -> None:
    vault = Vault(keyring())
    sealed = vault.seal("local", "r1", SAID)
    assert vault.open("local", "r1", sealed) == SAID and "hello" not in sealed
    for place in (("local", "r2"), ("other", "r1")):
        with pytest.raises(Damaged):
            vault.open(*place, sealed)


def test_an_older_key_opens_what_it_sealed_and_a_missing_one_is_told() -> None:
    sealed = Vault(keyring("old")).seal("local", "r1", SAID)
    assert Vault(keyring("new", "old")).open("local", "r1", sealed) == SAID
    for vault in (Vault(keyring("new")), Vault(None)):
        with pytest.raises(Unavailable, match="keyring"):
            vault.open("local", "r1", sealed)
