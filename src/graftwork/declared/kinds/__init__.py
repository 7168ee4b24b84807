"""KINDS: the kinds of resources that are applied, in the order in which they are; a new one is a file and a line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from graftwork.declared.resource_kind import ResourceKind
from graftwork.errors import InvalidRequest, meant

_HERE: Final = "graftwork.declared.kinds"
#: What others name comes before them. Adapters come before policies: what is in production when a policy is set stays
#: there, so that a registry can be made again whose policy demands what was given by hand.
KINDS: Final[Mapping[str, str]] = {
    "Tenant": f"{_HERE}.tenant:TenantKind",
    "Adapter": f"{_HERE}.adapter:AdapterKind",
    "Policy": f"{_HERE}.policy:PolicyKind",
    "Retention": f"{_HERE}.retention:RetentionKind",
    "Recording": f"{_HERE}.recording:RecordingKind",
    "AnalysisTemplate": f"{_HERE}.revised:TemplateKind",
    "Task": f"{_HERE}.revised:TaskKind",
    "Route": f"{_HERE}.revised:RouteKind",
    "PromotionPolicy": f"{_HERE}.revised:PromotionKind",
    "Grant": f"{_HERE}.grant:GrantKind",
    "Webhook": f"{_HERE}.webhook:WebhookKind",
    "Rollout": f"{_HERE}.rollout:RolloutKind",
}


@cache
def kind_of(word: str) -> ResourceKind[Any]:
    """Raises InvalidRequest for a word that is none."""
    if word not in KINDS:
        raise InvalidRequest(f"{word[:80]!a} is no kind that can be applied. {meant(word, KINDS)}", field="kind")
    module, _, name = KINDS[word].partition(":")
    made: ResourceKind[Any] = getattr(import_module(module), name)()
    return made


def all_kinds() -> list[ResourceKind[Any]]:
    return [kind_of(word) for word in KINDS]


def schema_of(word: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind's documents."""
    shape = kind_of(word).body.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{word}.json", **shape}
