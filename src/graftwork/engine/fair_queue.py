"""FairQueue: rows that wait for a place in the batch, in the order in which they are owed it."""

from __future__ import annotations

from bisect import insort_left, insort_right
from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from itertools import count

from graftwork.engine.fair_shares import FairShares, Turn, cost
from graftwork.engine.sequence import Sequence


class FairQueue:
    """Owns the waiting rows. Tenants take turns by `FairShares`; inside a tenant the smallest priority is first, then
    the first that came."""

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self._rows: dict[str, list[Sequence]] = {}  # of tenants that have some, in order
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Sequence]:
        """All rows in the order in which they would be taken, were nothing else given meanwhile."""
        ahead = count(1 << 62)  # after every turn that was taken already
        turns = [(self._shares.turn(tenant), tenant, 0) for tenant in self._rows]
        heapify(turns)
        while turns:
            (counter, _), tenant, place = turns[0]
            rows = self._rows[tenant]
            row = rows[place]
            if place + 1 < len(rows):
                after: Turn = (counter + cost(row.caller, unpaid(row)), next(ahead))
                heapreplace(turns, (after, tenant, place + 1))
            else:
                heappop(turns)
            yield row

    @property
    def tenants(self) -> frozenset[str]:
        return frozenset(self._rows)

    def add(self, row: Sequence) -> None:
        """A row comes."""
        insort_right(self._rows_of(row.caller.tenant), row, key=_place)
        self._count += 1

    def put_back(self, row: Sequence) -> None:
        """A row that was taken comes back, before those that came at the same time."""
        insort_left(self._rows_of(row.caller.tenant), row, key=_place)
        self._count += 1

    def take(self, row: Sequence) -> None:
        """A row leaves for the batch, and its tenant pays for what it has not paid for yet."""
        self.discard(row)
        self._shares.give(row.caller, unpaid(row))
        row.paid = max(row.paid, len(row.tokens))

    def discard(self, row: Sequence) -> None:
        """Forget a row; no-op for one that does not wait."""
        rows = self._rows.get(row.caller.tenant, [])
        if row in rows:
            rows.remove(row)
            self._count -= 1
            if not rows:
                del self._rows[row.caller.tenant]

    def check(self) -> None:
        """Rows are counted, and in order."""
        assert sum(map(len, self._rows.values())) == self._count, "a waiting row is not counted"
        for tenant, rows in self._rows.items():
            assert rows and all(row.caller.tenant == tenant for row in rows), "a row waits with another tenant's"
            assert [_place(row) for row in rows] == sorted(map(_place, rows)), "a row waits out of turn"

    def _rows_of(self, tenant: str) -> list[Sequence]:
        if tenant not in self._rows:
            self._shares.wake(tenant, self._rows)
            self._rows[tenant] = []
        return self._rows[tenant]


def unpaid(row: Sequence) -> int:
    """Tokens of a row that its tenant has not paid for: all of a new one, none of one that is computed again."""
    return max(0, len(row.tokens) - max(row.paid, row.num_computed))


def _place(row: Sequence) -> tuple[int, int]:
    return row.caller.priority, row.arrival
