"""Documents for tests of what is applied."""

from __future__ import annotations

from typing import Any

from graftwork.protocol.resource import API_VERSION

Document = dict[str, Any]


def document(kind: str, name: str | None, **spec: Any) -> Document:
    metadata = {} if name is None else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def route(name: str, reference: str = "tone:1.0.0") -> Document:
    return document("Route", name, rules=[{"targets": [{"reference": reference}]}])


def task(name: str, *choices: str, adapter: str = "tone") -> Document:
    return document("Task", name, adapter=adapter, output={"type": "label", "choices": list(choices or ("yes", "no"))})


def template(name: str, least: float = 0.9) -> Document:
    metric = {"name": "ok", "provider": {"rate": {"measure": "success_rate"}}, "successCondition": f"result >= {least}"}
    return document("AnalysisTemplate", name, metrics=[metric])


def canary(route: str, candidate: str) -> Document:
    steps = [{"setWeight": 10}, {"pause": {}}]
    return document(
        "Rollout", route, route=route, candidates=[{"reference": candidate}], strategy={"canary": {"steps": steps}}
    )


def promotion(name: str) -> Document:
    """Of versions under an alias that none has."""
    strategy = {"canary": {"steps": [{"setWeight": 10}], "analysis": {"name": "careful"}}}
    return document("PromotionPolicy", name, adapters="tone*", when={"alias": "ripe"}, strategy=strategy)


def platform() -> list[Document]:
    """One of every kind, in no order, for a tenant with the adapter tone in versions 1.0.0 and 1.1.0."""
    return [
        canary("front", "tone:1.1.0"),
        document("Webhook", "hook", url="https://example.com/hook", events=["route.*"], subjects=[]),
        document("Grant", None, tenant="acme", pattern="tone*", verbs=["see", "call"]),
        route("front"),
        task("mood"),
        template("careful"),
        promotion("tones"),
        document("Recording", None, mode="strict"),
        document("Retention", None, keepLast=3),
        document("Policy", None, approval={"needed": 2}),
        document("Policy", "tone", approval={"authorMayApprove": False}),
        document("Adapter", "tone", displayName="Tone", tags={"team": "a"}, aliases={"champion": "1.0.0"}),
        document("Tenant", "acme", weight=2, quotas={"adapters": 4}, defaultRoute="front"),
    ]


def actions(plan: dict[str, Any]) -> dict[str, str]:
    """By resource."""
    return {f"{one['kind']}/{one['name']}" if one["name"] else one["kind"]: one["action"] for one in plan["steps"]}
