"""Recording: how a tenant wants its answers recorded; set under an event, and a part of the snapshot."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal

from sqlalchemy import bindparam, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.db.schema import recordings
from graftwork.errors import Refused
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.snapshot import Changed
from graftwork.traffic.records.vault import Hasher, Vault

#: `relaxed` writes behind the answer, `strict` before its end leaves, `off` counts usage only.
Mode = Literal["off", "relaxed", "strict"]
RECORDING_SET: Final = "recording.set"
SUBJECT: Final = "recording"
SECRET_BYTES: Final = 32


@dataclass(frozen=True)
class Recording:
    """`mode` None is the server's own. Days are those that records, and what was said, are kept for."""

    mode: Mode | None = None
    keep_days: int = 90
    keep_text: bool = False
    text_days: int = 30
    #: Whether every answer's log-probabilities are computed, so that records have their mean.
    logprobs: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class RecordingRules:
    """Those of all tenants, as a part of the snapshot."""

    by_tenant: Mapping[str, Recording] = field(default_factory=dict)

    def of(self, tenant: str, mode: Mode) -> Recording:
        """What holds for a tenant; `mode` is the server's own."""
        own = self.by_tenant.get(tenant, _USUAL)
        return own if own.mode is not None else replace(own, mode=mode)


_USUAL = Recording()


def read_rules(tx: Transaction, known: RecordingRules | None, changed: Changed) -> RecordingRules:
    """As `SnapshotReader` wants its parts read."""
    if known is not None and changed is not None and not any(subject == SUBJECT for _, subject in changed):
        return known
    rows = tx.execute(select(recordings.c.tenant, recordings.c.spec))
    return RecordingRules({row.tenant: Recording(**parse(row.spec)) for row in rows})


def recording_of(tx: Transaction, tenant: str) -> Recording:
    """What the tenant has set, or what is usual."""
    spec = tx.execute(select(recordings.c.spec).where(recordings.c.tenant == tenant)).scalar()
    return _USUAL if spec is None else Recording(**parse(spec))


_FIND_SECRETS = select(recordings.c.tenant, recordings.c.secret).where(
    recordings.c.tenant.in_(bindparam("tenants", expanding=True))
)


def hashers_of(tx: Transaction, vault: Vault, tenants: Iterable[str], *, at: str) -> dict[str, Hasher]:
    """What hashes each tenant's contents; without a keyring by a secret, which is made when it is first asked for."""
    wanted = list(tenants)
    secrets: dict[str, str] = {}
    if not vault.can_seal:
        secrets = {row.tenant: row.secret for row in tx.execute(_FIND_SECRETS, {"tenants": wanted})}
        for tenant in wanted:
            if tenant not in secrets:
                secrets[tenant] = _write(tx, tenant, _USUAL, at=at, actor="")
    return {tenant: vault.hasher(tenant, base64.b64decode(secrets.get(tenant, ""))) for tenant in wanted}


class Recordings:
    """For use from any thread. `can_seal`: whether there is a keyring to seal texts under."""

    def __init__(self, database: Database, *, can_seal: bool, clock: Clock = utc_now) -> None:
        self._database, self._can_seal, self._clock = database, can_seal, clock

    def show(self, tenant: str) -> Recording:
        with self._database.reading() as tx:
            return recording_of(tx, tenant)

    def set(self, tenant: str, wanted: Recording, *, actor: str) -> Recording:
        """Record otherwise from the next request on; what was recorded before goes by the new days.

        Raises:
            Refused: texts are to be kept, and there is no keyring: they never lie unsealed.
        """
        if wanted.keep_text and not self._can_seal:
            raise Refused("Texts are kept sealed only, and this server has no keyring; give it artifacts_keyring.")
        with self._database.transaction() as tx:
            before = recording_of(tx, tenant)
            if before != wanted:
                at = timestamp(self._clock())
                _write(tx, tenant, wanted, at=at, actor=actor)
                payload = {"from": before.to_json(), "to": wanted.to_json()}
                events.append(tx, tenant, actor, RECORDING_SET, SUBJECT, payload, at=at)
        return wanted


def _write(tx: Transaction, tenant: str, wanted: Recording, *, at: str, actor: str) -> str:
    """Returns the tenant's secret, which stays what it was."""
    row = {"spec": canonical(wanted.to_json(), what="spec"), "updated_at": at, "updated_by": actor}
    own = recordings.c.tenant == tenant
    if tx.execute(recordings.update().where(own).values(row)).rowcount:
        return str(tx.execute(select(recordings.c.secret).where(own)).scalar_one())
    secret = base64.b64encode(os.urandom(SECRET_BYTES)).decode()
    tx.execute(recordings.insert().values({**row, "tenant": tenant, "secret": secret}))
    return secret
