"""Declared: resources as documents: what applying them would do, doing it, and what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Declared:
    """`client.declared`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def plan(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        set: str | None = None,
        implied: bool = False,
        prune: str | None = None,
        tenant: str | None = None,
    ) -> Json:
        """What would be done, in `steps`, and what stands in the way, in `problems`; nothing is done.

        Args:
            set: what the documents are called together; `default` where nobody says so, of which nothing is taken away.
            implied: nobody has chosen that name: nothing is taken away of a set that has none of these documents.
            prune: "set" takes away what an earlier apply of the set made and these documents do not have; "all"
                whatever they do not have.
            tenant: whose; the caller's own, else.
        """
        return self._wire.json("POST", _place("plan", tenant), json=_body(documents, set, implied, prune))

    def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        set: str | None = None,
        implied: bool = False,
        prune: str | None = None,
        reason: str | None = None,
        plan: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        tenant: str | None = None,
    ) -> Json:
        """Make it so, all or nothing; the answer is the plan, with the secrets of new webhooks.

        Args:
            plan: what `plan` answered: nothing is done where another plan would come of it now.

        Raises:
            InvalidResource: a document; `field` is `documents.<place>.…`. PreconditionFailed: another plan.
        """
        body = {**_body(documents, set, implied, prune), "reason": reason, "dry_run": dry_run, "plan": _seen(plan)}
        return self._wire.json("POST", _place("apply", tenant), json=body)

    def export(self, kinds: Sequence[str] = (), *, tenant: str | None = None) -> Json:
        """All that there is, or of these kinds, in `documents`; in `left_out` the kinds that one may not see."""
        return self._wire.json("GET", _place("export", tenant), params={"kind": list(kinds)})

    def kinds(self) -> list[str]:
        """The kinds that can be applied, in the order in which they are."""
        found: list[str] = self._wire.json("GET", "/api/v1/schemas")["kinds"]
        return found

    def schema(self, kind: str) -> Json:
        """The JSON Schema of a kind's documents."""
        return self._wire.json("GET", f"/api/v1/schemas/{quote(kind, safe='')}")


def _place(verb: str, tenant: str | None) -> str:
    return f"/api/v1/{verb}" if tenant is None else f"/api/v1/tenants/{quote(tenant, safe='')}/{verb}"


def _body(documents: Sequence[Mapping[str, Any]], set: str | None, implied: bool, prune: str | None) -> Json:
    """What nobody said is left out: the server knows what that means, or need not know it yet."""
    said = ({"set": set} if set is not None else {}) | ({"implied": True} if implied else {})
    return {"documents": list(documents), "prune": prune, **said}


def _seen(plan: Mapping[str, Any] | None) -> Json | None:
    if plan is None:
        return None
    labels = {
        f"{step['kind']}/{step['name']}" if step["name"] else step["kind"]: step["live"] for step in plan["steps"]
    }
    return {"digest": plan["digest"], "live": labels}
