"""Lineage over HTTP and by the client: statuses, fields, pages."""

from __future__ import annotations

import pytest

from graftwork.errors import Conflict
from graftwork.protocol.resource import API_VERSION
from support.rollouts import canary, hold, weight
from support.rollouts import document as rollout
from support.served import Served

EDGES = "/api/v1/lineage/edges"


def test_facts_are_added_once_and_asked_for_in_both_directions(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.client.promote("alpha:1.0.0")
    body = {"from": "alpha:1.0.0", "role": "trained_on", "to": "dataset:s3://corpora/eu"}
    first, again = (served.http.post(EDGES, json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert served.client.lineage.add("application:crm", "uses", "route:alpha")["created"] is True
    found = served.client.lineage.impact("dataset:s3://corpora/eu")
    assert [one["id"].partition(":")[0] for one in found["nodes"]] == ["application", "route", "version"]
    assert found["nodes"][2]["versions"][0]["aliases"] == ["production"] and found["count"] == 3
    graph = served.client.lineage.graph("alpha@production")
    assert {edge["role"] for edge in graph["edges"]} == {"based_on", "trained_on"}
    assert served.client.lineage.export("alpha@production", "mermaid").startswith("flowchart LR\n")
    path = "/api/v1/tenants/local/lineage?node=alpha"
    assert served.http.get(path).json() == served.http.get("/api/v1/lineage?node=alpha").json()
    assert served.http.get("/api/v1/tenants/acme/lineage?node=alpha").status_code == 404


def test_routes_and_the_arms_of_rollouts_are_endpoints(served: Served) -> None:
    data = "dataset:s3://corpora/eu"
    for number in (1, 2, 3):
        served.push(f"alpha:{number}.0.0", seed=number)
    served.client.promote("alpha:1.0.0")
    served.client.lineage.add("alpha:2.0.0", "trained_on", data)
    assert [one["kind"] for one in served.client.lineage.impact(data)["nodes"]] == ["version"]
    targets = [
        {"reference": one, "weight": 1} for one in ("alpha:2.0.0", "alpha", "fake-base", "acme/it", "gone:1.0.0")
    ]
    rules = [{"targets": targets}, {"targets": [{"reference": "alpha-{user}"}]}]
    document = {"apiVersion": API_VERSION, "kind": "Route", "metadata": {"name": "desk"}, "spec": {"rules": rules}}
    served.client.routes.set(document)
    served.client.lineage.add("application:crm", "uses", "route:desk")
    found = served.client.lineage.impact(data)
    assert [one["id"] for one in found["nodes"]][:2] == ["application:crm", "route:desk"] and found["count"] == 3
    of_desk = served.client.lineage.graph("route:desk", depth=1)["edges"]
    digests = {served.client.show(f"alpha:{number}.0.0")["digest"] for number in (1, 2)}
    assert {one["to"].removeprefix("version:") for one in of_desk} == digests
    assert {one["by"] for one in of_desk} == {"local"}
    served.client.routes.remove("desk")
    assert served.client.lineage.impact(data)["counts"] == {"version": 1}
    served.client.rollouts.start(rollout("alpha", canary(weight(5), hold())))
    assert served.client.lineage.impact(data)["counts"] == {"route": 1, "version": 1}
    served.client.rollouts.abort("alpha")
    assert served.client.lineage.impact(data)["counts"] == {"version": 1}


def test_what_closes_a_cycle_is_a_409(served: Served) -> None:
    for seed in (1, 2):
        served.push("alpha", seed=seed)
    served.client.lineage.add("alpha:1.0.1", "derived_from", "alpha:1.0.0")
    with pytest.raises(Conflict, match="cycle"):
        served.client.lineage.add("alpha:1.0.0", "derived_from", "alpha:1.0.1")


def test_a_push_names_its_parent_or_is_refused(served: Served) -> None:
    version = served.push("alpha:1.0.0")
    for parent, status in (("alpha", 409), ("nope", 422), ("A B", 422)):
        body = {"manifest": version["manifest"], "metadata": {"parents": [parent]}}
        response = served.http.post("/api/v1/adapters/beta/versions", json=body)
        assert response.status_code == status and "metadata.parents.0" in response.json()["detail"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400), ("?node=", 400), ("?node=dataset:../x", 400), ("?node=nope", 404), ("?node=dataset:nope", 404),
        ("?node=alpha&depth=0", 400), ("?node=alpha&depth=x", 400), (f"?node=dataset:{'x' * 2000}", 400),
        ("?node=dataset:%00", 400), ("?node=dataset:%252e%252e", 404),
    ],
)  # fmt: skip
def test_malformed_questions_are_a_4xx(served: Served, query: str, status: int) -> None:
    served.push("alpha:1.0.0")
    for door in ("/api/v1/lineage", "/api/v1/lineage/impact"):
        assert served.http.get(door + query).status_code == status
    assert served.http.get("/api/v1/lineage?node=alpha&direction=sideways").status_code == 400
    assert served.http.get("/api/v1/lineage/impact?node=alpha&page_token=x").status_code == 400
