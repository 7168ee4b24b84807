"""Stages, approvals, deprecations and policies over HTTP, and what they do to requests that are answered."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from graftwork.errors import Conflict, Forbidden, PreconditionFailed
from graftwork.testing import write_lora
from support.served import Served

POLICY = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy"}
ALPHA = "/api/v1/adapters/alpha"


def demand(served: Served, *gates: str, adapter: str | None = None, **approval: Any) -> dict[str, Any]:
    """Set a policy that lets nothing unapproved through these gates."""
    metadata = {} if adapter is None else {"name": adapter}
    spec = {"approval": approval, "require": {gate: ["approval"] for gate in gates}}
    return served.client.lifecycle.set_policy({**POLICY, "metadata": metadata, "spec": spec})


@pytest.fixture
def alpha(served: Served) -> Served:
    """With two versions of one adapter."""
    for number in (0, 1):
        served.push(f"alpha:1.{number}.0", seed=number)
    return served


def test_what_is_not_approved_is_not_served_where_the_policy_says_so(alpha: Served) -> None:
    demand(alpha, "serving")
    refused = alpha.chat(model="alpha")
    assert (refused.status_code, refused.json()["error"]) == (
        403,
        {
            "message": "The policy forbids to serve alpha:1.1.0: its approval is pending.",
            "type": "permission_error",
            "param": None,
            "code": "forbidden",
            "problems": ["its approval is pending"],
        },
    )
    assert alpha.chat(model="fake-base").status_code == 200
    assert alpha.chat(adapters=[{"ref": "alpha:1.0.0", "scale": 0.5}]).status_code == 403
    for path in ("embeddings", "classify"):
        assert alpha.http.post(f"/v1/{path}", json={"model": "alpha", "input": "a"}).status_code == 403
    assert [one["id"] for one in alpha.client.models()] == ["fake-base"]
    assert alpha.http.get("/v1/models/alpha").status_code == 403
    assert alpha.http.get("/v1/models/nope").status_code == 404

    alpha.client.lifecycle.approve("alpha:1.0.0", reason="read it")
    assert alpha.chat(model="alpha:1.0.0").status_code == 200
    assert alpha.chat(model="alpha").status_code == 403
    alpha.client.lifecycle.reject("alpha:1.0.0")
    assert "rejected" in alpha.chat(model="alpha:1.0.0").text
    alpha.http.delete("/api/v1/policy")
    assert alpha.chat(model="alpha:1.0.0").status_code == 200


def test_what_is_not_served_is_not_loaded_either(alpha: Served) -> None:
    alpha.client.promote("alpha:1.0.0")
    alpha.client.load("alpha:1.0.0")
    demand(alpha, "serving")
    for verb in (alpha.client.load, alpha.client.pin):
        with pytest.raises(Forbidden, match=r"alpha:1\.1\.0"):
            verb("alpha:1.1.0")
    alpha.client.promote("alpha:1.1.0")
    assert alpha.engine.anticipated == [], "nor does it follow the pointer"
    assert alpha.client.unload("alpha:1.0.0")["state"] != "resident"


def test_a_promotion_that_the_policy_forbids_is_a_403_with_every_reason(alpha: Served) -> None:
    document = demand(alpha, "production")
    document["spec"]["require"]["production"].append("staging")
    alpha.client.lifecycle.set_policy(document)
    response = alpha.http.post(f"{ALPHA}/promote", json={"reference": "alpha:1.0.0"})
    assert (response.status_code, response.json()["code"], response.json()["problems"]) == (
        403,
        "forbidden",
        ["its approval is pending", "its stage is development"],
    )
    with pytest.raises(Forbidden) as refused:
        alpha.client.lifecycle.set_stage("alpha:1.0.0", "production")
    assert len(refused.value.problems) == 2
    alpha.client.lifecycle.approve("alpha:1.0.0")
    alpha.client.lifecycle.set_stage("alpha:1.0.0", "staging")
    assert alpha.client.promote("alpha:1.0.0")["aliases"] == ["production"]


def test_a_stage_moves_by_its_version_s_etag(alpha: Served) -> None:
    url = f"{ALPHA}/versions/1.0.0"
    etag = alpha.http.get(url).headers["etag"]
    assert etag == alpha.http.get("/api/v1/versions?reference=alpha:1.0.0").headers["etag"]
    staged = alpha.http.put(f"{url}/stage", json={"stage": "staging"}, headers={"if-match": etag})
    assert (staged.status_code, staged.json()["stage"]) == (200, "staging")
    assert staged.headers["etag"] == alpha.http.get(url).headers["etag"] != etag
    stale = alpha.http.put(f"{url}/stage", json={"stage": "archived"}, headers={"if-match": etag})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    with pytest.raises(PreconditionFailed, match="in stage staging"):
        alpha.client.lifecycle.set_stage("alpha:1.0.0", "archived", expected="development")
    with pytest.raises(Conflict, match="staging or production"):
        for stage in ("archived", "development"):
            alpha.client.lifecycle.set_stage("alpha:1.0.0", stage)


def test_into_production_by_its_stage_memory_follows_as_it_does_a_promotion(alpha: Served) -> None:
    alpha.client.promote("alpha:1.0.0")
    alpha.client.models()
    alpha.client.lifecycle.set_stage("alpha:1.1.0", "production")
    alpha.client.models()  # whoever reads what is served is the first to see it
    assert [after.label for _, after in alpha.engine.anticipated] == ["alpha:1.1.0"]


def test_an_alias_moves_by_its_etag(alpha: Served) -> None:
    url, first = f"{ALPHA}/aliases/champion", {"target": "alpha:1.0.0"}
    assert alpha.http.get(url).status_code == 404
    assert alpha.http.put(url, json=first, headers={"if-match": "*"}).status_code == 412
    made = alpha.http.put(url, json=first, headers={"if-none-match": "*"})
    assert made.status_code == 200 and made.headers["etag"] == alpha.http.get(url).headers["etag"]
    assert made.headers["etag"] == f'"{made.json()["digest"]}"'
    assert alpha.http.put(url, json=first, headers={"if-none-match": "*"}).status_code == 412
    second = {"target": "alpha:1.1.0", "reason": "better"}
    moved = alpha.http.put(url, json=second, headers={"if-match": made.headers["etag"]})
    assert moved.status_code == 200
    stale = {"if-match": made.headers["etag"]}
    assert alpha.http.put(url, json=first, headers=stale).status_code == 412
    assert alpha.http.delete(url, headers=stale).status_code == 412
    shown = alpha.http.get(url).json()
    assert (shown["version"], shown["moved_by"], shown["reason"]) == ("1.1.0", "local", "better")
    assert alpha.http.get(f"{ALPHA}/aliases").json() == {"aliases": [shown]}
    gone = alpha.http.delete(f"{url}?reason=done", headers={"if-match": moved.headers["etag"]})
    assert gone.status_code == 204
    told = alpha.http.get(f"{ALPHA}/history?alias=champion").json()["events"]
    assert [event["payload"]["reason"] for event in told] == [None, "better", "done"]


@pytest.mark.parametrize("header", ['W/"a"', '"a", "b"', "a", '""', '"absent"', '"present"'])
def test_a_tag_that_cannot_be_compared_is_a_400(alpha: Served, header: str) -> None:
    for name in ("if-match", "if-none-match"):
        response = alpha.http.put(f"{ALPHA}/aliases/champion", json={"target": "alpha:1.0.0"}, headers={name: header})
        assert response.status_code == 400
    both = {"target": "alpha:1.0.0", "expected": "absent"}
    assert alpha.http.put(f"{ALPHA}/aliases/champion", json=both, headers={"if-match": '"x"'}).status_code == 400


def test_what_production_was_at_a_time_is_read_from_the_log(alpha: Served) -> None:
    alpha.client.promote("alpha:1.0.0")
    at = alpha.client.history("alpha")[-1]["at"]
    alpha.client.promote("alpha:1.1.0")
    assert alpha.client.show("alpha@production")["semver"] == "1.1.0"
    then = alpha.client.show("alpha@production", at=at)
    assert (then["semver"], then["stage"], then["aliases"]) == ("1.0.0", "production", ["production"])
    zoned = datetime.fromisoformat(at).isoformat().replace("+00:00", "-00:00")
    assert alpha.http.get(f"{ALPHA}/aliases/production", params={"at": zoned}).json()["version"] == "1.0.0"
    assert [one["version"] for one in alpha.client.aliases("alpha", at=at)] == ["1.0.0"]
    for wrong in ("yesterday", "2026-01-31T09:30:00", "2026-01-31", "2026-13-01T00:00:00Z"):
        response = alpha.http.get("/api/v1/versions", params={"reference": "alpha", "at": wrong})
        assert (response.status_code, response.json()["field"]) == (400, "at")


def test_every_answer_of_a_deprecated_version_says_so(alpha: Served) -> None:
    alpha.client.lifecycle.deprecate("alpha:1.0.0", "Use 1.1.0: it is kinder.", until="2027-04-01T02:00:00+02:00")
    shown = alpha.client.show("alpha:1.0.0")["deprecated"]
    assert shown["until"] == "2027-04-01T00:00:00.000000Z"
    answer = alpha.chat(model="alpha:1.0.0")
    assert answer.headers["deprecation"] == f"@{int(datetime.fromisoformat(shown['since']).timestamp())}"
    assert answer.headers["sunset"] == "Thu, 01 Apr 2027 00:00:00 GMT"
    said = {"model": "alpha:1.0.0", **shown}
    assert answer.json()["graftwork"]["deprecated"] == [said]
    assert alpha.events(model="alpha:1.0.0")[-1]["graftwork"]["deprecated"] == [said]
    together = alpha.chat(adapters=[{"ref": f"alpha:1.{number}.0", "scale": 0.5} for number in (0, 1)])
    assert together.json()["graftwork"]["deprecated"] == [said] and "deprecation" in together.headers
    other = alpha.chat(model="alpha:1.1.0")
    assert "deprecation" not in other.headers and "deprecated" not in other.json()["graftwork"]
    alpha.client.lifecycle.undeprecate("alpha:1.0.0", reason="not so bad")
    assert "deprecation" not in alpha.chat(model="alpha:1.0.0").headers


def test_verdicts_are_listed_and_a_key_makes_one_of_them_once(alpha: Served) -> None:
    url = f"{ALPHA}/versions/1.0.0/approvals"
    for _ in range(2):
        said = alpha.http.post(url, json={"verdict": "approved", "reason": "a"}, headers={"idempotency-key": "1"})
        assert (said.status_code, said.json()["approval"]) == (200, "approved")
    alpha.client.lifecycle.reject("alpha:1.0.0", reason="b")
    again = alpha.http.post(url, json={"verdict": "approved", "reason": "a"}, headers={"idempotency-key": "1"})
    assert again.json()["approval"] == "approved", "as it was answered then"
    listed = alpha.client.lifecycle.approvals("alpha:1.0.0")
    assert listed["approval"] == "rejected"
    assert [(one["verdict"], one["reason"], one["actor"]) for one in listed["opinions"]] == [
        ("approved", "a", "local"),
        ("rejected", "b", "local"),
    ]
    assert [one["approval"] for one in alpha.client.versions("alpha")] == ["pending", "rejected"]


def test_who_pushed_may_be_kept_from_approving(alpha: Served) -> None:
    demand(alpha, "production", authorMayApprove=False)
    with pytest.raises(Forbidden, match="nobody approve what they pushed"):
        alpha.client.lifecycle.approve("alpha:1.0.0")
    demand(alpha, "production", by=["ann"])
    with pytest.raises(Forbidden, match="others than local"):
        alpha.client.lifecycle.reject("alpha:1.0.0")


def test_an_adapters_policy_is_a_document_of_its_own(alpha: Served) -> None:
    tenants = alpha.client.lifecycle.policy()
    assert tenants["metadata"] == {} and tenants["spec"]["require"] == {"staging": [], "production": [], "serving": []}
    own = demand(alpha, "serving", adapter="alpha", needed=2)
    assert alpha.client.lifecycle.policy("alpha") == own and own["metadata"] == {"name": "alpha"}
    assert alpha.client.lifecycle.set_policy(own) == own, "what is shown can be set"
    assert alpha.client.lifecycle.policy() == tenants
    assert alpha.http.get(f"{ALPHA}/policy").headers["etag"] != alpha.http.get("/api/v1/policy").headers["etag"]
    assert alpha.http.put("/api/v1/policy", json=own).status_code == 400
    alpha.client.lifecycle.remove_policy("alpha", reason="over")
    assert alpha.client.lifecycle.policy("alpha") == tenants
    assert alpha.http.get("/api/v1/adapters/nope/policy").status_code == 404


def test_policies_and_deprecations_change_only_from_what_was_read(alpha: Served) -> None:
    url, body = f"{ALPHA}/policy", {**POLICY, "spec": {"require": {"serving": ["approval"]}}}
    tenants = {"if-match": alpha.http.get(url).headers["etag"]}
    assert alpha.http.put(url, json=body, headers={"if-match": "*"}).status_code == 412
    made = alpha.http.put(url, json=body, headers=tenants)
    assert (made.status_code, made.headers["etag"]) == (200, alpha.http.get(url).headers["etag"])
    for stale in (tenants, {"if-none-match": "*"}):
        assert alpha.http.put(url, json=POLICY, headers=stale).status_code == 412
        assert alpha.http.delete(url, headers=stale).status_code == 412
    assert alpha.http.get(url).json() == made.json()
    assert alpha.http.delete(url, headers={"if-match": made.headers["etag"]}).status_code == 204

    url, said = f"{ALPHA}/versions/1.0.0", {"message": "Use 1.1.0."}
    seen = {"if-match": alpha.http.get(url).headers["etag"]}
    assert alpha.http.put(f"{url}/deprecation", json=said, headers=seen).status_code == 200
    assert alpha.http.put(f"{url}/deprecation", json=said, headers=seen).status_code == 412
    assert alpha.http.delete(f"{url}/deprecation", headers=seen).status_code == 412
    assert alpha.client.show("alpha:1.0.0")["deprecated"]["message"] == "Use 1.1.0."


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "Adapter"}, "kind"),
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"spec": {"approvals": {}}}, "spec.approvals"),
        ({"spec": {"approval": {"needed": 0}}}, "spec.approval.needed"),
        ({"spec": {"approval": {"needed": 2, "by": ["ann", "ann"]}}}, "spec.approval.needed"),
        ({"spec": {"approval": {"by": []}}}, "spec.approval.by"),
        ({"spec": {"require": {"serving": ["staging"]}}}, "spec.require.serving.0"),
        ({"spec": {"require": {"production": ["signed"]}}}, "spec.require.production.0"),
        ({"spec": {"require": {"production": ["signature"]}}}, "spec.signature.keys"),
        ({"spec": {"signature": {"keys": ["2d71"]}}}, "spec.signature.keys.0"),
        ({"metadata": {"adapter": "alpha"}}, "metadata.adapter"),
    ],
)
def test_a_wrong_word_in_a_policy_is_named(served: Served, change: dict[str, Any], field: str) -> None:
    response = served.http.put("/api/v1/policy", json={**POLICY, **change})
    assert (response.status_code, response.json()["field"]) == (400, field)
    assert served.client.lifecycle.policy()["spec"]["require"]["serving"] == []


def test_an_adapter_whose_files_two_names_share_is_served_under_the_approved_one(served: Served) -> None:
    folder = write_lora(served.folder / "one", served.engine.outline)
    for name in ("alpha", "beta"):
        served.client.push(folder, name)
    demand(served, "serving")
    served.client.lifecycle.approve("beta")
    assert (served.chat(model="beta").status_code, served.chat(model="alpha").status_code) == (200, 403)
