"""live_names: under which names which versions answer now, and what of that only rules can say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graftwork.errors import NotFound

if TYPE_CHECKING:
    from graftwork.client.client import Client

#: The kind of adapter that other servers have.
_LORA: Final = "lora"
_ENDED: Final = ("completed", "aborted", "superseded", "promoted")


@dataclass(frozen=True)
class Served:
    """A name and the version that answers to it."""

    name: str
    reference: str  #: `sentiment:1.1.0`
    rank: int

    @property
    def folder(self) -> str:
        """Of the version's files."""
        return self.reference.replace(":", "-")


def live_names(client: Client) -> tuple[list[Served], list[str]]:
    """By name; and what another server does not do: rules, weights, defaults, rollouts, other kinds than LoRA.

    A name stands for one version: an adapter's for what its bare name means, a route's where it always leads to one.
    The versions that other routes lead to are there by their references.
    """
    found: dict[str, Mapping[str, Any]] = {one["name"]: one["production"] or one["newest"] for one in client.adapters()}
    notes: list[str] = []
    for route in client.routes.list():
        name, rules = route["metadata"]["name"], route["spec"]["rules"]
        found.pop(name, None)
        sole = _sole_target(rules)
        for reference in dict.fromkeys(target["reference"] for rule in rules for target in rule.get("targets", ())):
            try:
                version = client.show(reference)
            except NotFound:
                notes.append(f"Route/{name}: {reference} names no version now; left out.")
                continue
            found[name if reference == sole else _label(version)] = version
        if sole is None:
            notes.append(f"Route/{name}: its rules decide by request; its versions are there by their references.")
    for rollout in client.rollouts.list():
        if rollout["status"] not in _ENDED:
            notes.append(f"Rollout/{rollout['route']}: it goes on; everybody is answered by stable.")
    for name in [name for name, version in found.items() if version["kind"] != _LORA]:
        notes.append(f"{name}: {_label(found[name])} is of the kind {found.pop(name)['kind']}; left out.")
    return [Served(name, _label(one), one["rank"]) for name, one in sorted(found.items())], notes


def _sole_target(rules: list[dict[str, Any]]) -> str | None:
    """The reference that a route leads to whatever is asked; None where that depends, or by user."""
    if len(rules) != 1 or rules[0].keys() - {"name", "targets"} or len(rules[0].get("targets", ())) != 1:
        return None
    reference = str(rules[0]["targets"][0]["reference"])
    return None if "{" in reference else reference


def _label(version: Mapping[str, Any]) -> str:
    return f"{version['adapter']}:{version['semver']}"
