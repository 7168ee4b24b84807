"""prompt_shares: how the prompts of a step share its prompt tokens."""

from __future__ import annotations

from collections.abc import Sequence


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
