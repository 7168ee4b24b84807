"""The doors of resources over HTTP and in Python, alike for every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from graftwork.client.resources import Resources
from graftwork.errors import Conflict, InvalidResource, NotFound, PreconditionFailed
from graftwork.protocol.resource import API_VERSION
from support.served import Served


@dataclass(frozen=True)
class Case:
    """A kind by its documents and doors, and specs of it that differ by a number."""

    kind: str
    path: str
    entries: str
    events: str
    of: Callable[[Served], Resources]
    spec: Callable[[int], dict[str, Any]]
    wrong: str  #: a field of the spec that cannot be 7


def route(number: int) -> dict[str, Any]:
    return {"rules": [{"targets": [{"reference": f"tone:1.{number}.0"}]}]}


def task(number: int) -> dict[str, Any]:
    return {"adapter": f"tone:1.{number}.0"}


def template(number: int) -> dict[str, Any]:
    metric = {"name": "m", "provider": {"rate": {"measure": "success_rate"}}, "interval": "30s"}
    return {"metrics": [{**metric, "successCondition": f"result >= 0.{number}"}]}


def promotion(number: int) -> dict[str, Any]:
    told = {"adapters": f"tone-{number}*", "when": {"stage": "staging"}}
    return {**told, "strategy": {"canary": {"steps": [{"setWeight": number}]}}}


CASES = [
    Case("Route", "/api/v1/routes", "routes", "route", lambda served: served.client.routes, route, "rules"),
    Case("Task", "/api/v1/tasks", "tasks", "task", lambda served: served.client.tasks, task, "prompt"),
    Case(
        "AnalysisTemplate",
        "/api/v1/analysis/templates",
        "templates",
        "template",
        lambda served: served.client.analyses,
        template,
        "metrics",
    ),
    Case(
        "PromotionPolicy",
        "/api/v1/promotions",
        "promotions",
        "promotion",
        lambda served: served.client.promotions,
        promotion,
        "strategy",
    ),
]
each_kind = pytest.mark.parametrize("case", CASES, ids=[case.kind for case in CASES])


def document(case: Case, number: int, name: str = "a") -> dict[str, Any]:
    named = {"apiVersion": API_VERSION, "kind": case.kind, "metadata": {"name": name}}
    return {**named, "spec": case.spec(number)}


@each_kind
def test_a_document_is_written_read_back_moved_back_and_taken_away(served: Served, case: Case) -> None:
    client, path = case.of(served), f"{case.path}/a"
    made = served.http.put(path, json=document(case, 1), params={"reason": "new"})
    assert (made.status_code, made.headers["location"]) == (201, path)
    first = made.json()["status"]
    assert made.headers["etag"] == f'"{first["digest"]}"'
    assert served.http.put(path, json=client.show("a")).json() == made.json(), (
        "what is shown can be set, status and all"
    )
    second = client.set(document(case, 2), expected=first["digest"])["status"]
    assert (second["revision"], second["live"], second["updatedBy"]) == (2, True, "local")
    stale = served.http.put(path, json=document(case, 1), headers={"If-Match": made.headers["etag"]})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    with pytest.raises(PreconditionFailed):
        client.set(document(case, 1), expected="absent")
    older = client.show("a", revision=1)["status"]
    assert (older["live"], older["updatedAt"], older["createdAt"]) == (False, None, first["createdAt"])
    assert client.rollback("a", reason="worse")["status"]["revision"] == 1
    with pytest.raises(Conflict, match="no earlier revision"):
        client.rollback("a")
    assert [one["metadata"]["name"] for one in client.list()] == ["a"]
    client.remove("a", expected=first["digest"], reason="over")
    with pytest.raises(NotFound, match="does not exist"):
        client.show("a")
    told = [
        (one["status"]["revision"], one["status"]["live"], one["status"]["reason"]) for one in client.revisions("a")
    ]
    assert told == [(2, False, None), (1, False, "new")]
    events = served.client.events.list(subject=f"{case.entries}/a")
    assert [one["kind"].partition(".")[2] for one in events] == ["set", "set", "rolled_back", "removed"]
    assert {one["kind"].partition(".")[0] for one in events} == {case.events}


@each_kind
def test_the_same_rollback_twice_is_one(served: Served, case: Case) -> None:
    for number in (1, 2, 3):
        case.of(served).set(document(case, number))
    answers = [served.http.post(f"{case.path}/a/rollback", headers={"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert [one["status"]["revision"] for one in answers] == [2, 2]


@each_kind
def test_lists_come_page_by_page(served: Served, case: Case) -> None:
    for name in ("c", "a", "b"):
        case.of(served).set(document(case, 1, name))
    page = served.http.get(case.path, params={"page_size": 2}).json()
    assert ([one["metadata"]["name"] for one in page[case.entries]], page["next_page_token"]) == (["a", "b"], "b")
    rest = served.http.get(case.path, params={"page_token": "b"}).json()
    assert ([one["metadata"]["name"] for one in rest[case.entries]], rest["next_page_token"]) == (["c"], None)
    assert served.http.get(case.path, params={"page_token": "/"}).status_code == 400


@each_kind
def test_a_document_that_is_none_is_refused_by_field(served: Served, case: Case) -> None:
    good = document(case, 1)
    for wrong, field in (
        ({**good, "kind": "Other"}, "kind"),
        ({**good, "specs": {}}, "specs"),
        ({**good, "spec": {**good["spec"], case.wrong: 7}}, f"spec.{case.wrong}"),
        ({**good, "metadata": {"name": "other"}}, "metadata.name"),
    ):
        refused = served.http.put(f"{case.path}/a", json=wrong)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_resource"), refused.text
        assert refused.json()["field"] == field
    with pytest.raises(InvalidResource):
        case.of(served).set({"kind": case.kind})
    assert served.http.put(f"{case.path}/Upper", json=document(case, 1, "Upper")).status_code == 400
    assert case.of(served).list() == []


@each_kind
def test_another_tenant_s_is_not_there(served: Served, case: Case) -> None:
    case.of(served).set(document(case, 1))
    mine, theirs = (f"/api/v1/tenants/{tenant}{case.path.removeprefix('/api/v1')}/a" for tenant in ("local", "other"))
    assert served.http.get(mine).status_code == 200
    assert served.http.get(theirs).status_code == 404
