"""Lease: which of several servers of one database acts, by a row and the database's own clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import select, update

from graftwork.db.connect import Database, Transaction
from graftwork.db.schema import leases
from graftwork.db.time import database_time

#: How long whoever holds it may be silent before another takes it, in seconds.
TTL_S: Final = 5.0


@dataclass(frozen=True)
class Held:
    """The right to act while the row says so; `epoch` tells a holder from one that lost it and came back."""

    name: str
    holder: str
    epoch: int

    def holds(self, tx: Transaction) -> bool:
        """Whether it is still so, in the transaction of what is done by this right."""
        row = tx.execute(select(leases.c.holder, leases.c.epoch).where(leases.c.name == self.name)).first()
        return row is not None and (row.holder, row.epoch) == (self.holder, self.epoch)


class Lease:
    """One server's hand on one lease. No clock of a server takes part, so that it does not matter how they go."""

    def __init__(self, database: Database, name: str, holder: str, ttl_s: float = TTL_S) -> None:
        self._database, self._name, self._holder, self._ttl_s = database, name, holder, ttl_s

    def hold(self) -> Held | None:
        """Take or keep it; None while another has it. It is written only when a third of its time is over."""
        with self._database.reading() as tx:
            holder, epoch, left_s = self._read(tx)
        if left_s > 0 and holder != self._holder:
            return None
        if holder == self._holder and left_s > 2 * self._ttl_s / 3:
            return Held(self._name, holder, epoch)
        with self._database.transaction() as tx:
            return self._take(tx)

    def release(self) -> None:
        """Let another have it at once."""
        mine = (leases.c.name == self._name) & (leases.c.holder == self._holder)
        with self._database.transaction() as tx:
            tx.execute(update(leases).where(mine).values(expires_s=0.0))

    def _take(self, tx: Transaction) -> Held | None:
        holder, epoch, left_s = self._read(tx)
        if left_s > 0 and holder != self._holder:
            return None
        expires_s = database_time(tx) + self._ttl_s
        if holder is None:
            epoch = 1
            row = {"name": self._name, "holder": self._holder, "epoch": epoch, "expires_s": expires_s}
            tx.execute(leases.insert().values(row))
        else:
            # Also one's own that ran out: another may have had it and let go of it meanwhile.
            epoch += holder != self._holder or left_s <= 0
            changed = {"holder": self._holder, "epoch": epoch, "expires_s": expires_s}
            tx.execute(update(leases).where(leases.c.name == self._name).values(changed))
        return Held(self._name, self._holder, epoch)

    def _read(self, tx: Transaction) -> tuple[str | None, int, float]:
        """Who has it, in which epoch, and for how many seconds more."""
        query = select(leases.c.holder, leases.c.epoch, leases.c.expires_s).where(leases.c.name == self._name)
        row = tx.execute(query).first()
        return (None, 0, 0.0) if row is None else (row.holder, row.epoch, row.expires_s - database_time(tx))
