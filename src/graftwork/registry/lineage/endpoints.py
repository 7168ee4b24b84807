"""Endpoints: which versions answer under which names now, but for adapters' own names that nobody has put under rules.

That much follows from aliases; the rest is for those to say who decide on traffic.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Endpoint:
    """One version that a name leads to, since when and by whom."""

    route: str
    digest: str
    at: str
    by: str


@dataclass(frozen=True)
class Endpoints:
    """A tenant's."""

    served: tuple[Endpoint, ...] = ()
    routes: frozenset[str] = frozenset()  #: names with rules of their own, whatever they lead to

    @cached_property
    def parameters(self) -> dict[str, str]:
        """As statements read them: `served` is pairs of route and digest, and `ruled` names."""
        pairs = sorted({(one.route, one.digest) for one in self.served})
        return {"served": json.dumps(pairs), "ruled": json.dumps(sorted(self.routes))}


NONE = Endpoints()
