"""DominantShares: which rows give way in a full batch, for a tenant that has less than its share of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as Rows
from dataclasses import dataclass

from graftwork.engine.fair_shares import FairShares
from graftwork.engine.request import Caller
from graftwork.engine.sequence import Sequence


@dataclass(frozen=True)
class Held:
    """Rows that a tenant has in the batch, and pages of keys and values that they hold, each once."""

    rows: int = 0
    pages: int = 0


@dataclass(frozen=True)
class DominantShares:
    """What there is to hold: rows of a step, and pages.

    NOTE: Dominant resource fairness (Ghodsi et al., NSDI 2011). A tenant's share is the larger of its parts of both,
    divided by its weight. A row gives way only where afterwards the one who gave still has no less than the one
    who got, so that it cannot be asked back; and a row that gave way is left alone until it is half as long again as it
    was, so that of all its tokens together no more than three times as many are computed again.
    """

    rows: int
    pages: int

    def share(self, held: Held, caller: Caller) -> float:
        """The larger of a tenant's parts of rows and pages, over its weight."""
        return max(held.rows / self.rows, held.pages / self.pages) / caller.weight

    def youngest_of_largest(self, running: Rows[Sequence], shares: FairShares) -> Sequence:
        """The row that goes when pages run out: of the tenant with the largest share, what it would miss least."""
        callers = {row.caller.tenant: row.caller for row in running}
        if len(callers) == 1:
            return _least_first(running)[0]
        held = _held(running)
        largest = max(held, key=lambda one: (self.share(held[one], callers[one]), shares.turn(one)))
        return _least_first([row for row in running if row.caller.tenant == largest])[0]

    def giving_way(
        self, owed: Sequence, missing: int, short_of: int, running: Rows[Sequence], shares: FairShares
    ) -> list[Sequence]:
        """Rows to preempt so that `owed` finds a place; none where it is not owed one, or would not find it even so.

        What a row gives are pages that no other row holds; only rows of one tenant ever hold the same.

        Args:
            owed: with the pages that it would begin with.
            missing: pages that it needs beside them.
            short_of: how many of these are not to be had.
            running: all rows in the batch, oldest first.
        """
        tenant, callers = owed.caller.tenant, {row.caller.tenant: row.caller for row in running}
        behind = [one for one in callers if one != tenant and shares.turn(one) > shares.turn(tenant)]
        if not behind:
            return []
        held, with_owed = _held(running), _held([*running, owed])[tenant]
        after = self.share(Held(with_owed.rows, with_owed.pages + missing), owed.caller)
        largest = max(behind, key=lambda one: self.share(held[one], callers[one]))
        theirs = _least_first([row for row in running if row.caller.tenant == largest])
        holders = Counter(page for row in theirs for page in row.pages)
        left, found = held[largest], list[Sequence]()
        for row in theirs:
            if len(row.tokens) < row.kept_until:
                continue
            freed = sum(holders[page] == 1 for page in row.pages)
            holders.subtract(row.pages)
            left = Held(left.rows - 1, left.pages - freed)
            if self.share(left, row.caller) < after:
                break
            found.append(row)
            short_of -= freed
            if short_of <= 0:
                return found
        return []


def _held(rows: Rows[Sequence]) -> dict[str, Held]:
    pages: dict[str, set[int]] = {}
    for row in rows:
        pages.setdefault(row.caller.tenant, set()).update(row.pages)
    count = Counter(row.caller.tenant for row in rows)
    return {tenant: Held(count[tenant], len(theirs)) for tenant, theirs in pages.items()}


def _least_first(rows: Rows[Sequence]) -> list[Sequence]:
    """Rows of one tenant, oldest first, in the order in which it would miss them least: by priority, then youth."""
    youngest_first = list(reversed(rows))
    return sorted(youngest_first, key=lambda row: -row.caller.priority)
