"""The door that tells what versions wait for before policies promote them."""

from __future__ import annotations

from graftwork.protocol.resource import API_VERSION
from support.served import Served

DOOR = "/api/v1/promotions/auto/candidates"


def test_candidates_come_page_by_page(served: Served) -> None:
    spec = {"adapters": "tone-*", "when": {"stage": "staging"}, "strategy": {"canary": {"steps": [{"setWeight": 5}]}}}
    policy = {"apiVersion": API_VERSION, "kind": "PromotionPolicy", "metadata": {"name": "auto"}, "spec": spec}
    served.client.promotions.set(policy)
    assert served.client.promotions.candidates("auto") == []
    names = [f"tone-{number}" for number in range(5)]
    for seed, name in enumerate(names):
        served.push(f"{name}:1.0.0", seed=seed)
        served.client.lifecycle.set_stage(f"{name}:1.0.0", "staging")
    first = served.http.get(DOOR, params={"page_size": 3}).json()
    rest = served.http.get(DOOR, params={"page_token": first["next_page_token"]}).json()
    assert [one["adapter"] for one in first["candidates"]] == names[:3]
    assert [one["adapter"] for one in rest["candidates"]] == names[3:] and rest["next_page_token"] is None
    assert served.client.promotions.candidates("auto") == first["candidates"] + rest["candidates"]
    for wrong in ({"page_size": 0}, {"page_size": 1001}, {"page_token": "x" * 129}):
        assert served.http.get(DOOR, params=wrong).status_code == 400
    assert served.http.get("/api/v1/promotions/nope/candidates").status_code == 404
