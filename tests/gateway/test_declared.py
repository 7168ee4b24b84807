"""Plan, apply and export through their doors: what is planned is what is done, all of it or nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from graftwork.access.roles import Right
from graftwork.access.tenants import LOCAL
from graftwork.client import Client
from graftwork.declared.applier import Asked
from graftwork.declared.document import read_documents
from graftwork.declared.kinds import all_kinds, kind_of
from graftwork.errors import (
    Conflict,
    Forbidden,
    GraftworkError,
    InvalidRequest,
    InvalidResource,
    NotFound,
    PreconditionFailed,
)
from graftwork.settings import Settings
from support.databases import NewHome
from support.documents import actions, canary, document, platform, route, task, template
from support.served import Served, serving
from support.tenants import Town, settle, shared


@pytest.fixture
def stocked(served: Served) -> Served:
    return stock(served)


def stock(served: Served) -> Served:
    """With an adapter of two versions, of which the first is in production."""
    served.push("tone:1.0.0")
    served.push("tone:1.1.0", seed=1)
    served.client.promote("tone:1.0.0")
    return served


def position(client: Client) -> int:
    """How long the log is, but for what the controller of rollouts adds by itself."""
    return sum(one["actor"] != "rollout-controller" for one in client.events.list())


def test_a_plan_is_what_apply_does_and_then_nothing_is_left(stocked: Served) -> None:
    declared, before = stocked.client.declared, position(stocked.client)
    plan = declared.plan(platform(), set="home")
    assert plan["problems"] == [] and plan["changes"] == len(platform())
    assert set(actions(plan).values()) == {"create", "update"} and actions(plan)["Adapter/tone"] == "update"
    assert position(stocked.client) == before and stocked.client.routes.list() == []
    assert not any("secret" in step for step in plan["steps"])

    applied = declared.apply(platform(), set="home", plan=plan, reason="as planned")
    assert (actions(applied), applied["digest"]) == (actions(plan), plan["digest"])
    kinds = [one["kind"] for one in stocked.client.events.list() if one["position"] > before]
    assert "resources.applied" in kinds and {"route.set", "task.set", "rollout.started", "tag.set"} <= set(kinds)

    after = position(stocked.client)
    assert declared.plan(platform(), set="home")["changes"] == 0
    assert declared.apply(platform(), set="home")["changes"] == 0
    assert position(stocked.client) == after


def test_what_is_written_comes_in_the_order_of_what_it_names(stocked: Served) -> None:
    steps = stocked.client.declared.plan(platform())["steps"]
    kinds = list(dict.fromkeys(step["kind"] for step in steps))
    assert kinds == [kind for kind in stocked.client.declared.kinds() if kind in kinds]
    assert kinds.index("Task") < kinds.index("Route") < kinds.index("Rollout")


def test_an_update_is_told_field_by_field(stocked: Served) -> None:
    stocked.client.declared.apply([route("front"), task("mood")])
    [first, second] = stocked.client.declared.plan([route("front", "tone:1.1.0"), task("mood", "a", "b", "c")])["steps"]
    assert first["fields"] == [
        {"field": "spec.output.choices.0", "before": "yes", "after": "a"},
        {"field": "spec.output.choices.1", "before": "no", "after": "b"},
        {"field": "spec.output.choices.2", "after": "c"},
    ]
    field = "spec.rules.0.targets.0.reference"
    assert second["fields"] == [{"field": field, "before": "tone:1.0.0", "after": "tone:1.1.0"}]


def test_the_order_of_a_schema_counts(stocked: Served) -> None:
    def asking(*names: str) -> dict[str, Any]:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        return document("Task", "facts", adapter="tone", output={"type": "json", "schema": schema})

    stocked.client.declared.apply([asking("a", "b")])
    [step] = stocked.client.declared.plan([asking("b", "a")])["steps"]
    assert (step["action"], step["fields"], step["note"]) == ("update", [], "the same in another order")


BAD = [
    (route("fake-base"), Conflict, "Route/fake-base: fake-base is the name of a base model", None),
    (canary("front", "tone:9.0.0"), NotFound, "Rollout/front: There is no version tone:9.0.0", None),
    (document("Adapter", "nope"), NotFound, "Adapter/nope: There is no adapter nope", None),
    (document("Adapter", "tone", aliases={"x": "3.0.0"}), NotFound, "There is no version tone:3.0.0", None),
    (document("Webhook", "far", url="http://example.com", events=["*"]), InvalidRequest, "https", "documents.1"),
    (
        document("Task", "far", output={"type": "regex", "pattern": "("}),
        InvalidResource,
        "Task/far: .*pattern",
        "documents.1",
    ),
]


@pytest.mark.parametrize(("bad", "error", "said", "field"), BAD, ids=lambda one: str(one)[:40])
def test_one_that_is_refused_keeps_all_from_being_applied(
    stocked: Served, bad: dict[str, Any], error: type[GraftworkError], said: str, field: str | None
) -> None:
    before = position(stocked.client)
    with pytest.raises(error, match=said) as caught:
        stocked.client.declared.apply([route("front"), bad, task("mood")])
    if field is not None:
        assert getattr(caught.value, "field", "").startswith(field)
    assert position(stocked.client) == before and stocked.client.routes.list() == stocked.client.tasks.list() == []


def test_forms_of_one_request_may_take_so_long_together(stocked: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.gateway.declared.FORMS_S", 0.1)
    slow = [
        document("Task", f"t{at}", output={"type": "regex", "pattern": f"(a{{{900 + at}}}b){{90}}"}) for at in range(9)
    ]
    for ask in (stocked.client.declared.plan, stocked.client.declared.apply):
        with pytest.raises(
            InvalidResource, match=r"Task/t[1-8]: the forms of the tasks before it took 0\.1 s"
        ) as caught:
            ask(slow)
        assert (caught.value.field or "").endswith(".spec.output.pattern")
    assert stocked.client.declared.plan(slow[:1])["changes"] == 1


def test_a_plan_tells_all_that_stands_in_the_way(stocked: Served) -> None:
    found = [route("front"), document("Adapter", "nope"), route("fake-base")]
    problems = stocked.client.declared.plan(found)["problems"]
    assert [(one["document"], one["message"].partition(":")[0]) for one in problems] == [
        (1, "Adapter/nope"),
        (2, "Route/fake-base"),
    ]


UNREADABLE = [
    ([route("a"), {"kind": "Route"}], "documents.1.apiVersion", "required"),
    ([{"spec": {}}], "documents.0.kind", "one of Tenant"),
    ([{"kind": "Rout"}], "documents.0.kind", "Did you mean Route"),
    ([route("a") | {"more": 1}], "documents.0", "more is not a field"),
    ([document("Route", "a", rules=[{"target": []}])], "documents.0.spec.rules.0.target", "there are name, matches"),
    ([document("Route", "A b", rules=[{"refuse": {"message": "x"}}])], "documents.0", "route name"),
    (
        [route("a"), task("a"), route("a")],
        "documents.2.metadata.name",
        r"Route/a is in another document, too \(the 1st",
    ),
    ([document("Adapter", "a", aliases={"production": "1.0.0"})], "documents.0.spec.aliases.production", "promot"),
    ([document("Adapter", "a", production="@x")], "documents.0.spec.production", "no version such as"),
    ([document("Grant", None, tenant="a", pattern="**", verbs=["see"])], "documents.0", "pattern"),
    ([document("Tenant", "no name")], "documents.0", "tenant name"),
]


@pytest.mark.parametrize(("found", "field", "said"), UNREADABLE, ids=[one[1] + one[2][:9] for one in UNREADABLE])
def test_what_cannot_be_read_is_told_by_document_and_field(
    served: Served, found: list[dict[str, Any]], field: str, said: str
) -> None:
    for ask in (served.client.declared.plan, served.client.declared.apply):
        with pytest.raises(InvalidResource, match=said) as caught:
            ask(found)
        assert caught.value.field == field


def test_a_plan_that_is_no_longer_so_is_not_applied(stocked: Served) -> None:
    declared, found = stocked.client.declared, [route("front"), route("other")]
    plan = declared.plan(found)
    stocked.client.routes.set(route("front", "tone:1.1.0"))
    with pytest.raises(PreconditionFailed, match="Route/front changed since"):
        declared.apply(found, plan=plan)
    with pytest.raises(PreconditionFailed, match="not what was planned"):
        declared.apply([*found, task("mood")], plan=declared.plan(found))
    assert [one["metadata"]["name"] for one in stocked.client.routes.list()] == ["front"]
    declared.apply(found, plan=declared.plan(found))


def test_pruning_takes_away_what_the_set_made_and_nothing_else(stocked: Served) -> None:
    client, declared = stocked.client, stocked.client.declared
    client.routes.set(route("by-hand"))
    declared.apply([route("theirs")], set="theirs")
    declared.apply([route("kept"), route("gone"), route("edited"), task("gone"), template("gone")], set="ours")
    client.routes.set(route("edited", "tone:1.1.0"))
    plan = declared.plan([route("kept")], set="ours", prune="set")
    assert actions(plan) == {
        "Route/kept": "unchanged",
        "Route/edited": "unchanged",
        "Route/gone": "delete",
        "Task/gone": "delete",
        "AnalysisTemplate/gone": "delete",
    }
    notes = {step["name"]: step["note"] for step in plan["steps"] if step["note"]}
    assert notes == {"edited": "not pruned: changed by others since it was applied"}
    declared.apply([route("kept")], set="ours", prune="set", plan=plan)
    assert {one["metadata"]["name"] for one in client.routes.list()} == {"by-hand", "edited", "kept", "theirs"}
    assert client.tasks.list() == []


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_of_a_set_that_nobody_named_nothing_is_pruned(stocked: Served, verb: str) -> None:
    client, declared = stocked.client, stocked.client.declared
    declared.apply([route("theirs")])
    for body in ({}, {"implied": True}):
        told = {"documents": [route("ours")], "prune": "set", **body}
        said = stocked.http.post(f"/api/v1/{verb}", json=told)
        assert said.status_code == 400 and said.json()["field"] == "set" and 'name it by "set"' in said.json()["detail"]
    with pytest.raises(InvalidRequest, match="name it"):
        getattr(declared, verb)([route("ours")], prune="set")
    [warning] = declared.apply([route("ours")])["warnings"]
    assert warning.startswith("The set default has 1 resource and none of these documents")
    assert {one["metadata"]["name"] for one in client.routes.list()} == {"ours", "theirs"}
    named = declared.plan([route("ours")], set="default", prune="set")
    assert actions(named) == {"Route/ours": "unchanged", "Route/theirs": "delete"}


def test_what_nobody_said_is_not_sent(stocked: Served) -> None:
    """A server that does not know the field yet refuses it."""
    sent: list[dict[str, Any]] = []
    stocked.http.event_hooks = {"request": [lambda request: sent.append(json.loads(request.content))]}
    declared = stocked.client.declared
    declared.plan([])
    declared.plan([], set="ours", prune="set")
    declared.apply([], set="ours", implied=True)
    bare: dict[str, Any] = {"documents": [], "prune": None}
    assert sent[:2] == [bare, {**bare, "set": "ours", "prune": "set"}]
    assert sent[2] == {**bare, "set": "ours", "implied": True, "reason": None, "dry_run": False, "plan": None}


def test_what_was_made_again_by_hand_is_nobodys(stocked: Served) -> None:
    client, declared = stocked.client, stocked.client.declared
    declared.apply([route("front")], set="ours")
    client.routes.remove("front")
    client.routes.set(route("front", "tone:1.1.0"))
    assert "delete" not in actions(declared.plan([], set="ours", prune="set")).values()


def again(client: Client, own: dict[str, Any]) -> None:
    """Remove what a document has made, and make just the same, both by its own doors."""
    kind, name, spec = own["kind"], own["metadata"].get("name"), own["spec"]
    if kind == "Grant":
        client.grants.remove(client.grants.list()[0]["id"])
        client.grants.create(spec["tenant"], spec["pattern"], *spec["verbs"])
    elif kind == "Webhook":
        client.webhooks.remove(name)
        client.webhooks.set(name, spec["url"], events=spec["events"])
    elif kind == "Policy":
        client.lifecycle.remove_policy(name)
        client.lifecycle.set_policy(own)
    elif kind == "Retention":
        client.retention.remove_rules(name)
        client.retention.set_rules(own)
    else:
        doors = {"Route": client.routes, "Task": client.tasks, "AnalysisTemplate": client.analyses}
        door = doors.get(kind, client.promotions)
        door.remove(name)
        door.set(own)


def test_what_was_removed_by_hand_and_made_again_just_so_is_nobodys(stocked: Served) -> None:
    client, declared = stocked.client, stocked.client.declared
    declared.apply(platform(), set="ours")
    owned = [one for one in platform() if kind_of(one["kind"]).removable]
    assert {one["kind"] for one in owned} == {kind.word for kind in all_kinds() if kind.removable}
    rest = [one for one in platform() if one not in owned]
    assert len(actions(declared.plan(rest, set="ours", prune="set"))) == len(platform())
    for own in owned:
        again(client, own)
    assert declared.plan(platform(), set="ours")["changes"] == 0
    assert declared.plan(rest, set="ours", prune="set")["changes"] == 0


def test_what_was_made_by_hand_just_so_stays_nobodys(stocked: Served) -> None:
    stocked.client.routes.set(route("front"))
    stocked.client.declared.apply([route("front")], set="ours")
    assert actions(stocked.client.declared.plan([], set="ours", prune="set")) == {}
    stocked.client.declared.apply([route("front", "tone:1.1.0")], set="ours")
    assert actions(stocked.client.declared.plan([], set="ours", prune="set")) == {"Route/front": "delete"}


def test_pruning_all_takes_away_whatever_the_documents_do_not_have(stocked: Served) -> None:
    client, declared = stocked.client, stocked.client.declared
    client.routes.set(route("by-hand"))
    declared.apply(platform(), set="home")
    declared.apply([route("front")], set="other", prune="all")
    found = [one["kind"] for one in declared.export()["documents"]]
    assert found == ["Tenant", "Adapter", "Recording", "Route"]  # what cannot be taken away, and what was kept


def test_a_resource_of_another_set_is_taken_over_and_that_is_told(stocked: Served) -> None:
    declared = stocked.client.declared
    declared.apply([route("front")], set="one")
    [step] = declared.apply([route("front")], set="two")["steps"]
    assert (step["action"], step["note"]) == ("unchanged", "taken over from the set one")
    told = [event["payload"] for event in stocked.client.events.list() if event["kind"] == "resources.applied"]
    assert sorted((one["set"], len(one["changes"]), *one["owned"]) for one in told) == [
        ("one", 1),
        ("two", 0, "Route/front"),
    ]
    before = position(stocked.client)
    declared.apply([route("front")], set="two")
    assert position(stocked.client) == before
    assert actions(declared.plan([], set="one", prune="set")) == {}
    assert actions(declared.plan([], set="two", prune="set")) == {"Route/front": "delete"}


def test_what_is_exported_makes_an_empty_server_the_same(
    stocked: Served, settings: Settings, new_home: NewHome, tmp_path: Path
) -> None:
    stocked.client.declared.apply(platform())
    exported = stocked.client.declared.export()
    assert exported["left_out"] == [] and len(exported["documents"]) == len(platform()) - 1  # a rollout is an action
    assert "whsec" not in json.dumps(exported)
    with serving(settings.model_copy(update={"home": new_home(tmp_path / "other")}), tmp_path) as other:
        for seed, version in enumerate(("tone:1.0.0", "tone:1.1.0")):
            other.push(version, seed=seed)  # bytes are no configuration
        other.client.declared.apply(exported["documents"])
        assert other.client.declared.export() == exported
        assert other.client.declared.plan(exported["documents"], prune="all")["changes"] == 0
        assert other.client.routes.show("front")["status"]["conditions"][0]["status"] == "True"


def test_only_some_kinds_are_exported_where_they_are_named(stocked: Served) -> None:
    stocked.client.declared.apply(platform())
    found = stocked.client.declared.export(["Task", "Rollout"])["documents"]
    assert [one["kind"] for one in found] == ["Task", "Rollout"]
    with pytest.raises(InvalidRequest, match="Did you mean Task"):
        stocked.client.declared.export(["Tasks"])


def test_a_webhook_is_given_its_secret_once_and_keeps_it(stocked: Served) -> None:
    declared = stocked.client.declared

    def hook(*events: str) -> dict[str, Any]:
        return document("Webhook", "hook", url="https://example.com/h", events=list(events))

    [made] = declared.apply([hook("route.*")])["steps"]
    assert made["secret"].startswith("whsec_")
    sealed = _secret_row(stocked)
    [changed] = declared.apply([hook("task.*")])["steps"]
    assert changed["action"] == "update" and "secret" not in changed
    assert _secret_row(stocked) == sealed


def _secret_row(served: Served) -> str:
    from sqlalchemy import select

    from graftwork.db import Database
    from graftwork.db.schema import webhooks

    with Database(served.app.state.services.settings.database) as database, database.reading() as tx:
        return str(tx.execute(select(webhooks.c.secret)).scalar_one())


def test_a_rollout_document_begins_one_and_only_once(stocked: Served) -> None:
    declared, rollouts = stocked.client.declared, stocked.client.rollouts
    found = [route("front"), canary("front", "tone:1.1.0")]
    applied = declared.apply(found)
    assert {step["kind"]: step["note"] for step in applied["steps"]} == {"Route": None, "Rollout": "begins a rollout"}
    assert rollouts.show("front")["revision"] == 1
    assert declared.apply(found)["changes"] == 0
    rollouts.abort("front")
    assert declared.apply(found)["changes"] == 0 and rollouts.show("front")["revision"] == 1
    spoken = canary("front", "tone:1.1.0")
    spoken["spec"]["candidates"][0]["arm"] = "candidate"
    assert declared.plan([route("front"), spoken])["changes"] == 0
    slower = canary("front", "tone:1.1.0")
    slower["spec"]["strategy"]["canary"]["steps"][0]["setWeight"] = 1
    [_, step] = declared.apply([route("front"), slower])["steps"]
    assert (step["action"], step["fields"][0]["field"]) == ("update", "spec.strategy.canary.steps.0.setWeight")
    assert rollouts.show("front")["revision"] == 2


def test_a_rollout_of_before_is_not_begun_again(stocked: Served) -> None:
    declared, rollouts = stocked.client.declared, stocked.client.rollouts
    stocked.push("tone:1.2.0", seed=2)
    second, third = ([canary("tone", version)] for version in ("tone:1.1.0", "tone:1.2.0"))
    declared.apply(second)
    rollouts.abort("tone")
    declared.apply(third)
    rollouts.promote("tone")
    [step] = declared.apply(second)["steps"]
    told = "begun before, as tone/1; `graftwork rollout start` begins it again"
    assert (step["action"], step["note"]) == ("unchanged", told)
    assert rollouts.show("tone")["revision"] == 2
    stocked.client.lifecycle.set_stage("tone:1.1.0", "archived")
    assert declared.apply(second)["changes"] == 0  # though it could not be begun now


def test_a_rollout_that_did_not_come_to_its_end_is_told_with_how_to_begin_it_again(stocked: Served) -> None:
    client, found = stocked.client, [canary("tone", "tone:1.1.0")]
    client.declared.apply(found)
    assert client.declared.plan(found)["steps"][0]["note"] is None
    client.rollouts.abort("tone")
    [step] = client.declared.plan(found)["steps"]
    told = "ended: aborted; `graftwork rollout retry tone` begins it again"
    assert (step["action"], step["note"]) == ("unchanged", told)
    client.rollouts.retry("tone")
    assert client.declared.plan(found)["steps"][0]["note"] is None
    client.rollouts.promote("tone")
    [step] = client.declared.plan(found)["steps"]
    assert (step["action"], step["note"]) == ("unchanged", None)


def test_a_route_that_takes_over_the_name_of_an_adapter_is_told(stocked: Served) -> None:
    found = [route("tone"), route("front")]
    notes = [(one["name"], one["note"]) for one in stocked.client.declared.apply(found)["steps"]]
    assert notes == [("tone", "takes over the name of the adapter tone"), ("front", None)]
    changed = stocked.client.declared.plan([route("tone", "tone:1.1.0")])
    assert [(one["action"], one["note"]) for one in changed["steps"]] == [("update", None)]


def test_a_rollout_may_be_judged_by_a_template_of_the_same_documents(stocked: Served) -> None:
    declared, judged = stocked.client.declared, canary("front", "tone:1.1.0")
    judged["spec"]["strategy"]["canary"]["steps"].insert(1, {"analysis": {"name": "careful"}})
    with pytest.raises(InvalidRequest, match=r"Rollout/front: spec\.strategy\.canary\.steps\.1\.analysis\.name"):
        declared.apply([route("front"), judged])
    found = [judged, route("front"), template("careful")]
    assert declared.apply(found)["changes"] == 3
    assert declared.apply([*found[:2], template("careful", 0.5)])["changes"] == 1  # the one that runs keeps its own
    assert stocked.client.rollouts.show("front")["revision"] == 1


def opened(name: str, **default: Any) -> dict[str, Any]:
    """A template with the argument least."""
    found = template(name)
    found["spec"]["metrics"][0]["successCondition"] = "result >= {{ args.least }}"
    found["spec"]["args"] = [{"name": "least", **default}, {"name": "n", "value": 60}]
    found["spec"]["metrics"][0]["minSamples"] = "{{args.n}}"
    return found


def test_a_rollout_that_gives_arguments_is_begun_once_whatever_becomes_of_what_it_leaves_to_its_template(
    stocked: Served,
) -> None:
    declared, rollouts = stocked.client.declared, stocked.client.rollouts

    def judged(*args: dict[str, Any]) -> dict[str, Any]:
        found = canary("front", "tone:1.1.0")
        step = {"analysis": {"name": "careful", **({"args": list(args)} if args else {})}}
        found["spec"]["strategy"]["canary"]["steps"].insert(1, step)
        return found

    plan = declared.plan([route("front"), opened("careful"), judged()])
    assert [one["field"] for one in plan["problems"]] == ["documents.2.spec.strategy.canary.steps.1.analysis.args"]
    assert "The template careful needs a value for least" in plan["problems"][0]["message"]
    found = [route("front"), opened("careful"), judged({"name": "least", "value": 0.9})]
    assert declared.apply(found)["changes"] == 3
    assert declared.plan(found)["changes"] == 0
    pinned = rollouts.show("front")["spec"]["strategy"]["canary"]["steps"][1]["analysis"]
    assert pinned["args"] == [{"name": "least", "value": "0.9"}, {"name": "n", "value": "60"}]
    assert declared.apply([found[0], opened("careful", value=0.5), found[2]])["changes"] == 1
    again = declared.export(["AnalysisTemplate", "Rollout"])["documents"]
    assert declared.plan(again)["changes"] == 0
    [*_, step] = declared.apply([found[0], judged({"name": "least", "value": 0.8})])["steps"]
    assert (step["action"], rollouts.show("front")["revision"]) == ("update", 2)
    told = {one["field"]: (one.get("before"), one.get("after")) for one in step["fields"]}
    assert told["spec.strategy.canary.steps.1.analysis.args.0.value"] == ("0.9", "0.8")
    n, least = {"name": "n", "value": 60}, {"name": "least", "value": 0.8}
    for order in ((n, least), (least, n)):
        assert declared.plan([found[0], judged(*order)])["changes"] == 0
    assert declared.plan([found[0], judged({"name": "n", "value": 61}, least)])["changes"] == 1


def test_a_template_with_arguments_follows_its_schema_and_is_exported_as_it_was_written(stocked: Served) -> None:
    import jsonschema_rs

    declared, found = stocked.client.declared, opened("careful", value="0.9")
    declared.apply([found])
    schema = jsonschema_rs.Draft202012Validator(declared.schema("AnalysisTemplate"))
    schema.validate(found)
    [exported] = declared.export(["AnalysisTemplate"])["documents"]
    schema.validate(exported)
    assert exported["spec"]["metrics"] == found["spec"]["metrics"]
    wrong = opened("careful")
    wrong["spec"]["metrics"][0]["minSamples"] = "{{arg.n}}"
    assert not schema.is_valid(wrong)


def test_a_rollout_to_what_is_there_already_has_nothing_to_do(stocked: Served) -> None:
    [_, step] = stocked.client.declared.apply([route("front"), canary("front", "tone:1.0.0")])["steps"]
    assert (step["action"], step["note"]) == ("unchanged", "front means tone:1.0.0 already")
    with pytest.raises(NotFound):
        stocked.client.rollouts.show("front")


def test_an_adapter_is_told_of_only_what_its_document_says(stocked: Served) -> None:
    client, declared = stocked.client, stocked.client.declared
    client.descriptions.set("tone", description="kept")
    client.set_alias("tone", "old", "tone:1.0.0")
    digest = client.show("tone:1.1.0")["digest"]
    declared.apply([document("Adapter", "tone", production="1.1.0", tags={"b": "2", "a": "1"})])
    assert client.show("tone")["semver"] == "1.1.0" and client.show("tone@old")["semver"] == "1.0.0"
    [exported] = declared.export(["Adapter"])["documents"]
    assert exported["spec"] == {
        "displayName": "",
        "description": "kept",
        "tags": {"a": "1", "b": "2"},
        "aliases": {"old": "1.0.0"},
        "production": "1.1.0",
    }
    declared.apply([document("Adapter", "tone", aliases={"new": digest}, tags={})])
    assert declared.plan([document("Adapter", "tone", aliases={"new": digest[:19]}, tags={})])["changes"] == 0
    with pytest.raises(NotFound):
        client.show("tone@old")


def test_what_names_something_that_is_not_there_is_applied_with_a_warning(served: Served) -> None:
    plan = served.client.declared.plan([route("front", "tone@production"), task("mood", adapter="front")])
    assert (plan["problems"], plan["warnings"]) == ([], ["Route/front: tone@production names no version yet."])
    by_task = document("Route", "front", rules=[{"matches": [{"task": "mood"}], "refuse": {"message": "no"}}])
    assert served.client.declared.plan([by_task])["warnings"] == ["Route/front: there is no Task/mood yet."]


def test_a_target_leads_to_no_route(stocked: Served) -> None:
    plan = stocked.client.declared.plan([route("front"), route("door", "front"), route("tone", "tone"), task("a")])
    assert plan["warnings"] == ["Route/door: front is a route, which none leads to, and names no version yet."]


def test_a_default_route_that_is_not_there_or_goes_is_told(stocked: Served) -> None:
    declared, said = stocked.client.declared, ["Tenant/local: front names no route and no version yet."]
    tenant = document("Tenant", "local", defaultRoute="front")
    assert declared.plan([tenant])["warnings"] == said
    assert declared.plan([document("Tenant", "local", defaultRoute="tone")])["warnings"] == []
    assert declared.apply([tenant, route("front"), route("other")], set="s")["warnings"] == []
    assert declared.plan([tenant, route("front")], set="s", prune="set")["warnings"] == []
    for kept in ([tenant], []):
        assert declared.plan([*kept, route("other")], set="s", prune="set")["warnings"] == said


@pytest.fixture
def town(settings: Settings, tmp_path: Path) -> Iterator[Town]:
    with shared(settings, tmp_path) as made:
        yield settle(made)


def test_nobody_may_apply_what_they_may_not_do_by_its_own_door(town: Town) -> None:
    rights: dict[str, tuple[dict[str, Any], ...]] = {
        "deployer": (route("front"), task("mood"), template("t"), document("Adapter", "tone", description="x")),
        "admin": (document("Policy", None), document("Grant", None, tenant="zeta", pattern="*", verbs=["see"])),
    }
    everything = [one for found in rights.values() for one in found] + [document("Tenant", "acme", weight=900)]
    viewer = town.shared.client(town.shared.key("acme", "viewer")).declared
    with pytest.raises(Forbidden, match="right to deploy"):
        viewer.plan([])
    for role in ("deployer", "admin"):
        declared = town.shared.client(town.shared.key("acme", role)).declared
        allowed = rights["deployer"] if role == "deployer" else everything[:-1] if role == "admin" else ()
        for one in everything:
            plan = declared.plan([one])
            if one in allowed:
                assert plan["problems"] == [], (role, one)
                continue
            assert "it needs the right to" in plan["problems"][0]["message"], (role, one)
            with pytest.raises(Forbidden):
                declared.apply([one])
    tenant = town.shared.client(town.acme).tenants.show("acme")
    assert tenant["weight"] == 1.0


def test_where_events_are_sent_is_shown_to_administrators_only(town: Town) -> None:
    hook = document("Webhook", "hook", url="https://example.com/secret-path", events=["*"])
    town.shared.client(town.acme).declared.apply([hook])
    deployer = town.shared.client(town.shared.key("acme", "deployer")).declared
    exported, plan = deployer.export(), deployer.plan([hook])
    assert exported["left_out"] == ["Webhook"] and "secret-path" not in json.dumps(exported)
    assert [one["message"] for one in plan["problems"]] == [
        "Webhook/hook: Your key may not see a Webhook: it needs the right to administer."
    ]


def test_who_may_not_see_what_there_was_may_not_plan(town: Town) -> None:
    blind = town.shared.client(town.shared.key("acme", "deployer", scopes=("manage",))).declared
    for ask in (blind.plan, blind.apply):
        with pytest.raises(Forbidden, match="the right to read"):
            ask([route("front")])


def test_a_plan_in_which_nothing_changes_waits_for_no_writer(stocked: Served) -> None:
    from graftwork.db import Database

    found = [route("front"), document("Tenant", "acme"), document("Adapter", "tone", tags={"a": "b"})]
    stocked.client.declared.apply(found)
    with Database(stocked.app.state.services.settings.database) as database, database.transaction():
        assert stocked.client.declared.plan(found)["changes"] == 0


@contextmanager
def said_to_databases() -> Iterator[list[str]]:
    """The statements of this thread."""
    seen: list[str] = []
    own = threading.get_ident()

    def see(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if threading.get_ident() == own:
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", see)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", see)


def test_what_is_read_does_not_grow_with_each_document(stocked: Served) -> None:
    """Of tenants, grants and adapters: what there is besides is read once, or not at all."""
    grants = [document("Grant", None, tenant=f"t{one}", pattern="*", verbs=["see"]) for one in range(12)]
    tenants = [document("Tenant", f"t{one}") for one in range(12)]

    def statements(documents: list[dict[str, Any]]) -> int:
        asked = Asked(LOCAL, "me", frozenset(Right), read_documents(documents), "home")
        with said_to_databases() as seen:
            assert stocked.app.state.services.applier.plan(asked).problems == ()
        assert not [one for one in seen if "api_keys" in one]  # who may do what is not its business
        return len(seen)

    alone = statements([document("Adapter", "tone")])
    for number in range(3):
        stocked.push(f"other{number}:1.0.0", seed=3 + number)
    assert statements([document("Adapter", "tone")]) == alone
    stocked.client.declared.apply(grants + tenants)
    assert statements(grants + tenants) == statements(grants[:1] + tenants[:1])


def test_what_is_said_to_the_database_is_made_once(stocked: Served) -> None:
    """Making a statement takes longer than what it asks for, and others wait for the writer meanwhile."""

    def made(*names: str) -> int:
        statements: list[Any] = []  # all are held, so that no two are at one place
        own = threading.get_ident()

        def see(_connection: Any, statement: Any, *_: Any) -> None:
            if threading.get_ident() == own and not any(statement is one for one in statements):
                statements.append(statement)

        asked = Asked(LOCAL, "me", frozenset(Right), read_documents([task(name) for name in names]), "home")
        event.listen(Engine, "before_execute", see)
        try:
            stocked.app.state.services.applier.plan(asked)
        finally:
            event.remove(Engine, "before_execute", see)
        return len(statements)

    assert made(*(f"t{number}" for number in range(30))) == made("one")


def test_one_tenants_documents_are_not_anothers(town: Town) -> None:
    acme, zeta = (town.shared.client(key) for key in (town.acme, town.zeta))
    acme.declared.apply([route("front")], set="ours")
    assert {one["kind"] for one in zeta.declared.export()["documents"]} == {"Tenant", "Adapter"}
    assert zeta.declared.plan([], set="ours", prune="set")["steps"] == []
    with pytest.raises(NotFound):
        zeta.declared.export(tenant="acme")
    operator = town.shared.client(town.operator)
    assert [one["metadata"] for one in operator.declared.export(["Route"], tenant="acme")["documents"]] == [
        {"name": "front"}
    ]
    assert {one["metadata"]["name"] for one in operator.declared.export(["Tenant"])["documents"]} == {"acme", "zeta"}


def test_every_kind_has_a_schema_that_its_own_export_follows(stocked: Served) -> None:
    import jsonschema_rs

    stocked.client.declared.apply(platform())
    declared = stocked.client.declared
    found = declared.export(declared.kinds())["documents"]
    assert {one["kind"] for one in found} == set(declared.kinds())
    for one in found:
        schema = declared.schema(one["kind"])
        jsonschema_rs.meta.validate(schema)
        jsonschema_rs.Draft202012Validator(schema).validate(one)
    with pytest.raises(NotFound):
        declared.schema("Nope")
