"""Signatures: only those that hold are recorded, and they stay; whose they are is what a policy asks."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from sqlalchemy.exc import IntegrityError

from graftwork.access.clock import timestamp
from graftwork.artifacts.signing.keys import read_private, read_public
from graftwork.artifacts.signing.signature import sign
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.errors import Conflict, Forbidden, InvalidRequest, NotFound, Refused
from graftwork.registry import signatures as module
from graftwork.registry.idempotency import Once
from graftwork.registry.reference import parse_reference
from graftwork.registry.rules.policy import Policy
from graftwork.registry.signatures import Signature, Signatures
from graftwork.registry.snapshot import SnapshotReader
from support.keys import KEYS

if TYPE_CHECKING:
    from support.desk import Desk

MINE = KEYS["ed25519"]
FINGERPRINT = read_public(MINE.public).fingerprint


class Vault:
    """Signatures of a registry with one version, and a short way to make one."""

    def __init__(self, desk: Desk) -> None:
        self.store = MemoryStore()
        self.signatures = Signatures(desk.database, self.store, desk.clock)
        self.version = desk.push(1)

    def signed(self, key: str = "ed25519") -> str:
        """The digest of a stored signature of the version."""
        return self.keep(sign(self.version.manifest, self.version.label, read_private(KEYS[key].private)))

    def keep(self, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.store.put("local", digest, [data])
        return digest

    def add(self, bundle: str, key: str = "ed25519", reference: str = "tone") -> tuple[Signature, bool]:
        return self.signatures.add("local", reference, bundle, KEYS[key].public.decode(), actor="me")


@pytest.fixture
def vault(desk: Desk) -> Vault:
    return Vault(desk)


def test_a_signature_is_recorded_once_with_its_event(vault: Vault, desk: Desk) -> None:
    bundle = vault.signed()
    made, created = vault.add(bundle)
    assert (made.number, made.fingerprint, made.algorithm, created) == (1, FINGERPRINT, "ed25519", True)
    assert vault.add(bundle) == (made, False)
    vault.add(vault.signed("p256"), "p256")
    assert [one.number for one in vault.signatures.of("local", "tone")] == [1, 2]
    assert vault.signatures.show("local", "tone", 1) == made
    events = [event for event in desk.registry.history("local", "tone") if event.kind == "signature.added"]
    assert events[0].payload["fingerprint"] == FINGERPRINT
    assert len(events) == 2


def test_what_does_not_hold_is_not_recorded(vault: Vault, desk: Desk) -> None:
    bundle = vault.signed()
    desk.push(2)
    with pytest.raises(Refused, match="another key"):
        vault.add(bundle, "p256")
    with pytest.raises(Refused, match="other bytes than were signed"):
        vault.add(bundle, reference="tone:1.0.1")
    with pytest.raises(Refused, match="not JSON"):
        vault.add(vault.keep(b"nothing"))
    with pytest.raises(Conflict, match="not stored"):
        vault.add("sha256:" + "0" * 64)
    with pytest.raises(InvalidRequest, match="digest"):
        vault.add("sha256:")
    with pytest.raises(InvalidRequest, match="no key"):
        vault.signatures.add("local", "tone", bundle, "no key", actor="me")
    assert vault.signatures.of("local", "tone") == vault.signatures.of("local", "tone:1.0.1") == ()


def test_a_signature_for_another_tenants_version_is_not_found(vault: Vault, desk: Desk) -> None:
    desk.push(1, tenant="other", name="theirs")
    for reference in ("theirs", "other/theirs"):
        with pytest.raises(NotFound):
            vault.add(vault.signed(), reference=reference)
    with pytest.raises(NotFound):
        vault.signatures.show("local", "tone", 7)


def test_a_key_is_used_once(vault: Vault) -> None:
    bundle, once, pem = vault.signed(), Once("key", "sha256:1"), MINE.public.decode()
    first = vault.signatures.add("local", "tone", bundle, pem, actor="me", once=once)
    assert vault.signatures.add("local", "tone", bundle, pem, actor="me", once=once) == first


def test_there_is_a_most_that_a_version_has(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SIGNATURES", 1)
    vault.add(vault.signed())
    with pytest.raises(Conflict, match="the most"):
        vault.add(vault.signed("p256"), "p256")


def test_the_database_refuses_to_change_or_remove_one(vault: Vault, desk: Desk) -> None:
    vault.add(vault.signed())
    for change in ("UPDATE signatures SET fingerprint = 'x'", "DELETE FROM signatures"):
        with pytest.raises(IntegrityError), desk.database.transaction() as tx:
            tx.exec_driver_sql(change)


def test_a_policy_lets_in_what_each_of_its_keys_signed(vault: Vault, desk: Desk) -> None:
    keys = frozenset(read_public(KEYS[name].public).fingerprint for name in ("ed25519", "p256"))
    policy = Policy(signature_keys=keys, require={"production": ("signature",), "serving": ("signature",)})
    desk.lifecycle.set_policy("local", policy, actor="me")
    vault.add(vault.signed())
    before = timestamp(desk.clock())
    with pytest.raises(
        Forbidden, match=r"keeps tone:1\.0\.0 out of production: it is not signed by sha256:"
    ) as refused:
        desk.promote("tone:1.0.0")
    assert FINGERPRINT not in str(refused.value)  # that one is there
    assert desk.registry.show("local", "tone").forbidden == refused.value.problems
    vault.add(vault.signed("p256"), "p256")
    promoted = desk.promote("tone:1.0.0")
    assert (promoted.signed_by, promoted.forbidden) == (tuple(sorted(keys)), ())
    assert desk.registry.show("local", "tone", at=before).signed_by == (FINGERPRINT,)
    assert SnapshotReader(desk.database).current().resolve("local", parse_reference("tone")).forbidden == ()
    assert Policy.from_json(policy.to_json()) == policy
