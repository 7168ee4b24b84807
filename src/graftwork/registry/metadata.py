"""completed: a version's metadata as they are frozen, from what was said, the files and the base; and `changed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graftwork.adapters.outline import Outline
from graftwork.errors import InvalidMetadata
from graftwork.registry.frozen import freeze

if TYPE_CHECKING:
    from graftwork.adapters.identity import AdapterIdentity


def completed(
    said: Mapping[str, Any], outline: Outline, identity: AdapterIdentity, *, kind: str, rank: int
) -> dict[str, Any]:
    """Metadata with the facts filled in, where there are such; of the base's id and revision yours go first.

    Raises:
        InvalidMetadata: what was said is not so.
    """
    files = {
        "kind": kind,
        "rank": rank or None,  # kinds without a rank have 0
        "alpha": identity.alpha,
        "target_modules": _listed(identity.target_modules),
        "peft_version": identity.peft_version,
    }
    base = {"id": outline.source, "revision": outline.revision} | _present(said.get("base", {}))
    base = _agreed("base", base, {"weights_digest": outline.weights_digest})
    return {**said, "base": base, "adapter": _agreed("adapter", said.get("adapter", {}), files)}


def changed(said: Mapping[str, Any], registered: Mapping[str, Any], before: str = "") -> list[str]:
    """Fields, with dots, of which something else was said than is registered; what was not said is none of them."""
    found: list[str] = []
    for field, value in said.items():
        known = registered.get(field)
        if isinstance(value, Mapping):
            found += changed(value, known if isinstance(known, Mapping) else {}, f"{before}{field}.")
        elif freeze(value) != freeze(known):
            found.append(f"{before}{field}")
    return found


def _agreed(section: str, said: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    told, facts = _present(said), _present(facts)
    for field, fact in facts.items():
        claim = told.get(field, fact)
        claim = sorted(set(claim)) if isinstance(claim, list) else claim
        if claim != fact:
            name = f"metadata.{section}.{field}"
            raise InvalidMetadata(
                f"{name} is said to be {str(claim)[:200]}, but it is {str(fact)[:200]}. Leave it out: it is filled in.",
                field=name,
            )
    return told | facts


def _present(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in facts.items() if value is not None}


def _listed(targets: str | tuple[str, ...] | None) -> str | list[str] | None:
    return list(targets) if isinstance(targets, tuple) else targets
