"""prompt_shares: how the prompts of a step share its prompt tokens."""

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


def tenants_shares(wanted: Sequence[int], callers: Sequence[Caller], budget: int) -> list[int]:
    """`prompt_shares` inside each tenant; between them by weight, so that one's long prompts do not hold up another's.

    What a tenant does not want goes to the others.

    Example:
        >>> tenants_shares([900, 800, 30], [Caller("long"), Caller("long"), Caller("short")], 100)
        [70, 0, 30]
    """
    places: dict[str, list[int]] = {}
    for place, caller in enumerate(callers):
        places.setdefault(caller.tenant, []).append(place)
    if len(places) <= 1:
        return prompt_shares(wanted, budget)
    totals = [sum(wanted[place] for place in theirs) for theirs in places.values()]
    weights = [callers[theirs[0]].weight for theirs in places.values()]
    shares = [0] * len(wanted)
    for theirs, most in zip(places.values(), by_weight(totals, weights, budget), strict=True):
        for place, share in zip(theirs, prompt_shares([wanted[place] for place in theirs], most), strict=True):
            shares[place] = share
    return shares


def by_weight(wanted: Sequence[int], weights: Sequence[float], budget: int) -> list[int]:
    """Of `budget` to each in proportion to its weight, but no more than it wants; nothing is left over.

    Example:
        >>> by_weight([10, 100, 100], [1.0, 1.0, 2.0], 100)
        [10, 30, 60]
    """
    shares, weight = [0] * len(wanted), sum(weights)
    for one in sorted(range(len(wanted)), key=lambda one: wanted[one] / weights[one]):  # those who want least first
        shares[one] = min(wanted[one], budget, int(budget * weights[one] / weight))
        budget, weight = budget - shares[one], weight - weights[one]
    for one, most in enumerate(wanted):  # what was rounded off, and it is a few tokens
        more = min(budget, most - shares[one])
        shares[one], budget = shares[one] + more, budget - more
    return shares
