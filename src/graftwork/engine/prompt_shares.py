"""prompt_shares, TenantShares: how the prompts of a step share its prompt tokens, of one tenant and of several."""

from __future__ import annotations

from collections.abc import Sequence

from graftwork.engine.request import Caller


def prompt_shares(wanted: Sequence[int], budget: int) -> list[int]:
    """Tokens for each prompt, oldest first, of those that it wants; in all `budget`, or everything that is wanted.

    First come, first served, and whole where possible. Of what is left for the first that does not fit, half goes to
    later prompts that are at most half as long, the shortest first: so a long prompt does not hold up short ones,
    and the oldest always gets half of the budget or all that it wants.

    Example:
        >>> prompt_shares([50, 1000, 30, 600], 150)
        [50, 70, 30, 0]
    """
    shares = [0] * len(wanted)
    for first, count in enumerate(wanted):
        if count <= budget:
            shares[first] = count
            budget -= count
            continue
        shorter = [place for place in range(first + 1, len(wanted)) if 2 * wanted[place] <= count]
        theirs = budget // 2
        for place in sorted(shorter, key=lambda place: wanted[place]):  # stable: of equals the older
            shares[place] = min(wanted[place], theirs)
            theirs -= shares[place]
        shares[first] = budget - sum(shares[first + 1 :])
        break
    return shares


class TenantShares:
    """Divides a step's prompt tokens between tenants; inside each, `prompt_shares` does.

    NOTE: Each tenant has a part of every step by its weight, and what it does not want goes to the others. One that can
    have all its prompts done in this step may take more, of the parts of those that cannot, whom it would delay by
    nothing if they went first; it has to do without as much before it may again. So a tenant's long prompts do not hold
    up another's short one, and over some steps everyone gets its part. Owns what was taken beyond a part.
    """

    def __init__(self) -> None:
        self._owed: dict[str, tuple[float, float]] = {}  # tenant → tokens, weight

    def shares(self, wanted: Sequence[int], callers: Sequence[Caller], budget: int) -> list[int]:
        """Tokens for each prompt of those that it wants, oldest first; in all `budget`, or everything that is wanted.

        Example:
            >>> callers = [Caller("long"), Caller("long"), Caller("short")]
            >>> TenantShares().shares([900, 800, 60], callers, 100)
            [40, 0, 60]
        """
        places: dict[str, list[int]] = {}
        for place, caller in enumerate(callers):
            places.setdefault(caller.tenant, []).append(place)
        if len(places) <= 1:
            return prompt_shares(wanted, budget)
        totals = [sum(wanted[place] for place in theirs) for theirs in places.values()]
        weights = [callers[theirs[0]].weight for theirs in places.values()]
        owed = [self._owed.get(tenant, (0.0, 0.0))[0] for tenant in places]
        parts = by_weight(totals, weights, budget, owed)
        shares = [0] * len(wanted)
        for theirs, most in zip(places.values(), parts, strict=True):
            for place, share in zip(theirs, prompt_shares([wanted[place] for place in theirs], most), strict=True):
                shares[place] = share
        return shares

    def taken(self, tokens: Sequence[int], callers: Sequence[Caller], budget: int) -> None:
        """A step has computed so many tokens of each prompt."""
        if not self._owed and len({caller.tenant for caller in callers}) <= 1:
            return
        owed = dict(self._owed)
        for caller, count in zip(callers, tokens, strict=True):
            owed[caller.tenant] = (owed.get(caller.tenant, (0, 0))[0] + count, caller.weight)
        each = budget / sum(weight for _, weight in owed.values())
        self._owed = {
            tenant: (left, weight) for tenant, (count, weight) in owed.items() if (left := count - each * weight) > 0
        }


def by_weight(wanted: Sequence[int], weights: Sequence[float], budget: int, owed: Sequence[float]) -> list[int]:
    """Of `budget` to each by its weight, less what it owes, but no more than it wants; nothing is left over.

    Who owes nothing gets all that it wants while there is as much.

    Example:
        >>> by_weight([10, 200, 200], [1.0, 1.0, 2.0], 100, [0, 0, 0])
        [10, 30, 60]
        >>> by_weight([60, 900], [1.0, 1.0], 100, [0, 0])
        [60, 40]
        >>> by_weight([60, 900], [1.0, 1.0], 100, [10, 0])
        [40, 60]
    """
    shares, weight = [0] * len(wanted), sum(weights)
    for one in sorted(range(len(wanted)), key=lambda one: wanted[one] / weights[one]):  # those who want least first
        part = int(budget * weights[one] / weight - owed[one])
        if wanted[one] <= budget and not owed[one]:
            part = budget
        shares[one] = min(wanted[one], budget, max(0, part))
        budget, weight = budget - shares[one], weight - weights[one]
    for one, most in enumerate(wanted):  # what was rounded off, or nobody else wants
        more = min(budget, most - shares[one])
        shares[one], budget = shares[one] + more, budget - more
    return shares
