"""FairShares: what each tenant has been given, so that the next row is of the tenant that has had least."""

from __future__ import annotations

from collections.abc import Collection

from graftwork.engine.request import Caller

#: What a token counts: one of a prompt, and one that is generated (a step of its own, so twice as much).
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0

#: Tenants are served by the smallest: tokens that they were given, then when they were last given a row.
Turn = tuple[float, int]


class FairShares:
    """Owns a counter per tenant: weighted tokens that it was given, divided by its weight.

    NOTE: Virtual Token Counter (https://arxiv.org/abs/2401.00588). The next row is always of the waiting tenant with
    the smallest counter. A tenant that had nothing to wait for has not saved anything up: when it comes back its
    counter is lifted to the least of those that wait, or, where none waits, to that of the tenant served last. What it
    was given beyond its share stays on its counter. So of two tenants that both wait all the time, neither is given
    more than `unfairness_bound` weighted tokens more than the other, times its weight.
    """

    def __init__(self) -> None:
        self._counters: dict[str, float] = {}
        self._served: dict[str, int] = {}  # when a tenant was last given a row, in rows given so far
        self._rows = 0
        self._clock = 0.0  # counter of the tenant that was given the last row

    def turn(self, tenant: str) -> Turn:
        """The smaller, the earlier it is served; of equals the one that was served longest ago."""
        return self._counters.get(tenant, 0.0), self._served.get(tenant, 0)

    def wake(self, tenant: str, waiting: Collection[str]) -> None:
        """A tenant without a waiting row gets one, beside the tenants that have some already."""
        floor = min((self._counters[other] for other in waiting if other != tenant), default=self._clock)
        self._counters[tenant] = max(self._counters.get(tenant, 0.0), floor)

    def give(self, caller: Caller, prompt_tokens: int) -> None:
        """A tenant is given a row that has so many prompt tokens to be paid for."""
        self._clock = max(self._clock, self._counters[caller.tenant])
        self._rows += 1
        self._served[caller.tenant] = self._rows
        self._counters[caller.tenant] += cost(caller, prompt_tokens)

    def generated(self, caller: Caller) -> None:
        """One token was generated for a tenant."""
        self._counters[caller.tenant] += OUTPUT_WEIGHT / caller.weight

    def forget(self, here: Collection[str]) -> None:
        """Drop what no longer tells anything of tenants that are not `here`; all of it when nobody is."""
        if not here:
            self._counters.clear()
            self._served.clear()
            self._clock = 0.0
            return
        for tenant in [one for one, counter in self._counters.items() if one not in here and counter <= self._clock]:
            del self._counters[tenant]
            self._served.pop(tenant, None)


def cost(caller: Caller, prompt_tokens: int) -> float:
    """What so many prompt tokens add to a tenant's counter."""
    return PROMPT_WEIGHT * prompt_tokens / caller.weight


def unfairness_bound(longest_prompt: int, longest_answer: int, max_num_seqs: int) -> float:
    """Weighted tokens by which two tenants that wait all the time may differ: twice what all rows of one may take.

    A tenant is given a row while its counter is the least; from then on the counter grows by that row's prompt and by
    what its rows in the batch still generate. Rows pass one that is next only where its tenant's part of a step goes to
    prompts that it runs already, and for which it has paid: so for no more than these.
    """
    return 2 * max_num_seqs * (PROMPT_WEIGHT * longest_prompt + OUTPUT_WEIGHT * longest_answer)
