"""The graph on both databases: what pushes and people say, in both directions, with what is live now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.access import events
from graftwork.access.events import verify_chain
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.lineage.endpoints import Endpoint, Endpoints
from graftwork.registry.lineage.formats import write_graph
from graftwork.registry.lineage.lineage import Impact, Lineage, LineageGraph
from graftwork.registry.lineage.nodes import parse_node

if TYPE_CHECKING:
    from support.desk import Desk

DIGEST = "sha256:" + "a1" * 32
EU = f"dataset:s3://corpora/eu-2026@{DIGEST}"
TRAINED: dict[str, Any] = {"datasets": [{"uri": "s3://corpora/eu-2026", "digest": DIGEST}]}


def child(reference: str, field: str = "parents") -> dict[str, Any]:
    return {field: [reference]}


def called(found: Impact | LineageGraph) -> set[str]:
    return {node.label for node in found.nodes}


def edges(graph: LineageGraph) -> set[tuple[str, str, str]]:
    label = {node.node: node.label for node in graph.nodes}
    return {(label[one.edge.source], one.edge.role, label[one.edge.target]) for one in graph.facts}


def test_a_push_says_what_it_came_from(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(2, metadata={**child("tone:1.0.0"), "code": {"repo": "r", "commit": "0f3c2a1", "dirty": True}})
    graph = lineage.graph("local", "tone:1.0.1")
    base = f"base:tiny@sha256:{'b' * 64}"
    assert edges(graph) == {
        ("tone:1.0.1", "based_on", base),
        ("tone:1.0.1", "built_with", "code:r@0f3c2a1-dirty"),
        ("code:r@0f3c2a1-dirty", "derived_from", "code:r@0f3c2a1"),
        ("tone:1.0.1", "derived_from", "tone:1.0.0"),
        ("tone:1.0.0", "based_on", base),
        ("tone:1.0.0", "trained_on", EU),
    }
    assert not graph.truncated and all(fact.by == "me" for fact in graph.facts)
    assert called(lineage.graph("local", "tone:1.0.1", depth=1)) == {
        "tone:1.0.1", base, "code:r@0f3c2a1-dirty", "tone:1.0.0"
    }  # fmt: skip


def test_impact_of_data_is_every_version_at_any_depth_and_what_serves_them_now(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(2, metadata=child("tone:1.0.0"))
    desk.push(3, "voice", metadata=child("tone:1.0.1", "merged_from"))
    desk.push(4, "other")
    desk.promote("voice")
    desk.registry.set_alias("local", "tone", "champion", "tone:1.0.1", actor="me")
    lineage.add("local", "application:crm", "uses", "route:voice", actor="me")
    lineage.add("local", "route:checkout", "serves", "tone:1.0.0", actor="me")
    found = lineage.impact("local", "dataset:s3://corpora/eu-2026")
    assert called(found) == {
        "tone:1.0.0", "tone:1.0.1", "voice:1.0.0", "route:voice", "route:checkout", "application:crm"
    }  # fmt: skip
    assert found.counts == {"application": 1, "route": 2, "version": 3}
    aliases = {node.label: node.versions[0].aliases for node in found.nodes if node.versions}
    assert aliases == {"tone:1.0.0": (), "tone:1.0.1": ("champion",), "voice:1.0.0": ("production",)}
    assert called(lineage.impact("local", EU, live=True)) == called(found) - {"tone:1.0.0"}
    assert called(lineage.impact("local", EU, kind="route")) == {"route:voice", "route:checkout"}
    assert called(lineage.impact("local", EU, depth=1)) == {"tone:1.0.0"}
    assert called(lineage.impact("local", EU, depth=3)) == called(found) - {"route:voice", "application:crm"}
    assert called(lineage.impact("local", EU, depth=5)) == called(found)
    downstream = lineage.graph("local", EU, "downstream")
    assert called(downstream) == {*called(found), EU}
    assert ("route:voice", "serves", "voice:1.0.0") in edges(downstream)


def test_what_production_leaves_is_served_no_longer(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(2)
    lineage.add("local", "application:crm", "uses", "route:tone", actor="me")
    desk.promote("tone:1.0.0")
    assert called(lineage.impact("local", EU)) == {"tone:1.0.0", "route:tone", "application:crm"}
    desk.promote("tone:1.0.1")
    assert called(lineage.impact("local", EU)) == {"tone:1.0.0"}
    assert ("route:tone", "serves", "tone:1.0.1") in edges(lineage.graph("local", "application:crm"))
    assert called(lineage.impact("local", "route:tone")) == {"application:crm"}


def test_what_a_version_was_measured_on_concerns_no_version_behind_it(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata={"datasets": [{"uri": "s3://test", "role": "evaluated_on"}]})
    desk.push(2, metadata=child("tone:1.0.0"))
    desk.promote("tone:1.0.0")
    assert called(lineage.impact("local", "dataset:s3://test")) == {"tone:1.0.0"}
    assert called(lineage.graph("local", "dataset:s3://test", "downstream")) == {"dataset:s3://test", "tone:1.0.0"}
    assert "dataset:s3://test" in called(lineage.graph("local", "tone:1.0.0"))
    assert "dataset:s3://test" not in called(lineage.graph("local", "tone:1.0.1"))
    # A model that is measured on what it wrote itself stands on nothing new: that is no cycle.
    lineage.add("local", "dataset:s3://test", "generated_by", "tone:1.0.0", actor="me")


def test_a_node_without_its_digest_means_all_of_that_name_and_no_other(desk: Desk, lineage: Lineage) -> None:
    other = "sha256:" + "c2" * 32
    desk.push(1, metadata=TRAINED)
    desk.push(2, metadata={"datasets": [{"uri": "s3://corpora/eu-2026", "digest": other}]})
    desk.push(3, metadata={"datasets": [{"uri": "s3://corpora/eu-2026"}]})
    desk.push(4, metadata={"datasets": [{"uri": "s3://corpora/eu-2026@host"}]})
    assert called(lineage.impact("local", EU)) == {"tone:1.0.0"}
    found = lineage.impact("local", "dataset:s3://corpora/eu-2026")
    assert called(found) == {"tone:1.0.0", "tone:1.0.1", "tone:1.0.2"} and len(found.roots) == 3
    assert found.counts == {"version": 3}
    assert len(lineage.impact("local", "base:tiny").nodes) == 4


def test_the_same_bytes_under_two_names_are_one_node(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(1, "copy", metadata={"code": {"repo": "r", "commit": "0f3c2a1"}})
    (node,) = lineage.impact("local", EU).nodes
    assert [f"{one.adapter}:{one.version}" for one in node.versions] == ["tone:1.0.0", "copy:1.0.0"]
    assert {EU, "code:r@0f3c2a1"} <= called(lineage.graph("local", "tone"))
    with pytest.raises(Conflict, match=r"metadata.parents.0: fork:1.0.0 cannot be derived_from tone:1.0.0: .*itself"):
        desk.push(1, "fork", semver="1.0.0", metadata=child("tone"))


def test_a_version_is_called_as_it_was_asked_for_however_many_names_its_bytes_have(
    desk: Desk, lineage: Lineage
) -> None:
    for name in ("alpha", "tone", "zeta"):
        desk.push(1, name)
        desk.push(2, name)
    desk.promote("tone:1.0.1")
    desk.promote("zeta:1.0.0")
    lineage.add("local", "tone:1.0.1", "derived_from", "tone:1.0.0", actor="me")
    with desk.database.reading() as tx:
        assert [event.subject for event in events.read_events(tx, "local") if event.kind == "lineage.added"] == [
            "adapters/tone"
        ]
    tree = write_graph(lineage.graph("local", "tone@production").to_json(), "tree").splitlines()
    assert tree[0] == "tone:1.0.1 (@production), also alpha:1.0.1 (development), zeta:1.0.1 (development)"
    assert "  derived_from → tone:1.0.0 (development), also alpha:1.0.0 (development), zeta:1.0.0 (@production)" in tree
    with pytest.raises(Conflict, match=r"^tone:1\.0\.0 cannot be derived_from tone:1\.0\.1, that would close a cycle: "
                       r"tone:1\.0\.1 is derived_from tone:1\.0\.0\.$"):  # fmt: skip
        lineage.add("local", "tone:1.0.0", "derived_from", "tone:1.0.1", actor="me")
    with pytest.raises(Conflict, match=r"^zeta:1\.0\.0 cannot be derived_from alpha:1\.0\.0: they are the same bytes"):
        lineage.add("local", "zeta:1.0.0", "derived_from", "alpha:1.0.0", actor="me")
    live = lineage.impact("local", "base:tiny", live=True, kind="version")
    assert live.counts == {"version": 2}
    assert {f"{one.adapter}:{one.version}" for node in live.nodes for one in node.versions} == {
        "tone:1.0.1",
        "zeta:1.0.0",
    }


def test_a_push_with_a_parent_that_is_not_there_registers_nothing(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, tenant="acme")
    for parent in (child("tone"), child(f"tone@{desk.manifest(1).digest()}")):
        with pytest.raises(NotFound, match=r"metadata\.parents\.0: There is no"):
            desk.push(2, metadata=parent)
    with pytest.raises(InvalidRequest, match=r"metadata\.datasets"):
        desk.push(2, metadata={"datasets": "eu"})
    assert desk.registry.list_adapters("local").items == ()
    with pytest.raises(NotFound):
        lineage.impact("local", "base:tiny")


def test_facts_are_added_once_with_an_event_and_never_changed(desk: Desk, lineage: Lineage) -> None:
    desk.push(1)
    fact, created = lineage.add("local", "tone", "trained_on", EU, actor="ada", reason="found later")
    assert created and lineage.add("local", "tone", "trained_on", EU, actor="bob") == (fact, False)
    lineage.add("local", EU, "preprocessed_by", "preprocessing:clean", actor="ada")
    with desk.database.reading() as tx:
        verify_chain(tx)
        about_tone = events.read_events(tx, "local", "adapters/tone")[-1]
        about_data = events.read_events(tx, "local", "lineage")
    assert (about_tone.kind, about_tone.actor) == ("lineage.added", "ada")
    assert about_tone.payload == {**fact.edge.to_json(), "reason": "found later"}
    assert [event.payload["role"] for event in about_data] == ["preprocessed_by"]
    for change in ("UPDATE lineage_edges SET role = 'uses'", "DELETE FROM lineage_edges", "DELETE FROM lineage_nodes"):
        with pytest.raises(IntegrityError, match="append-only"), desk.database.transaction() as tx:
            tx.execute(text(change))


def test_a_cycle_is_refused_and_named(desk: Desk, lineage: Lineage) -> None:
    desk.push(1)
    desk.push(2, metadata=child("tone:1.0.0"))
    desk.push(3, metadata=child("tone:1.0.1"))
    with pytest.raises(Conflict, match=r"tone:1\.0\.0 cannot be merged_from tone:1\.0\.2.*cycle: tone:1\.0\.2 is "
                       r"derived_from tone:1\.0\.1, tone:1\.0\.1 is derived_from tone:1\.0\.0"):  # fmt: skip
        lineage.add("local", "tone:1.0.0", "merged_from", "tone:1.0.2", actor="me")
    with pytest.raises(Conflict, match="itself"):
        lineage.add("local", "tone:1.0.0", "derived_from", "tone:1.0.0", actor="me")
    lineage.add("local", "dataset:synthetic", "generated_by", "tone:1.0.2", actor="me")
    with pytest.raises(Conflict, match=r"cycle: dataset:synthetic is generated_by tone:1\.0\.2"):
        lineage.add("local", "tone:1.0.0", "trained_on", "dataset:synthetic", actor="me")
    with pytest.raises(Conflict, match="cycle"):
        lineage.add("local", "code:r@0f3c2a1", "derived_from", "code:r@0f3c2a1-dirty", actor="me")
    assert len(lineage.graph("local", "tone:1.0.0", "both").facts) == 4, "nothing of what was refused stays"


@pytest.mark.parametrize(
    ("source", "role", "target", "field"),
    [
        ("tone", "eats", "dataset:a", "role"), ("tone", "uses", "dataset:a", "role"),
        ("dataset:a", "serves", "tone", "role"),
        ("dataset:../a", "derived_from", "dataset:b", "from"), ("tone", "trained_on", "dataset:", "to"),
        ("A B", "trained_on", "dataset:a", "from"),
        ("tone", "trained_on", "s3://corpora/x", "to"), ("tone", "trained_on", "dataset:\x00", "to"),
        ("tone", "trained_on", "dataset:" + "x" * 2000, "to"), ("tone", "trained_on", "dataset:\u202e", "to"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_by_field(
    desk: Desk, lineage: Lineage, source: str, role: str, target: str, field: str
) -> None:
    desk.push(1)
    with pytest.raises(InvalidRequest) as refused:
        lineage.add("local", source, role, target, actor="me")
    assert refused.value.field == field


def test_versions_at_the_ends_must_be_there(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, tenant="acme")
    for end in ("tone", f"version:{desk.manifest(1).digest()}", "version:tone:1.0.0"):
        with pytest.raises(NotFound):
            lineage.add("local", "application:crm", "uses", end, actor="me")
        with pytest.raises(NotFound):
            lineage.graph("local", end)
    for node in ("dataset:unknown", "route:unknown", "base:tiny"):
        with pytest.raises(NotFound):
            lineage.impact("local", node)


def test_tenants_do_not_see_one_another(desk: Desk, lineage: Lineage) -> None:
    for tenant in ("local", "acme"):
        desk.push(1, tenant=tenant, metadata=TRAINED)
        desk.promote("tone", tenant)
    desk.push(2, tenant="acme", metadata=child("tone"))
    lineage.add("acme", "application:theirs", "uses", "route:tone", actor="them")
    assert called(lineage.impact("local", EU)) == {"tone:1.0.0", "route:tone"}
    assert called(lineage.impact("acme", EU)) == {"tone:1.0.0", "tone:1.0.1", "route:tone", "application:theirs"}
    assert "application:theirs" not in called(lineage.graph("local", EU, "both"))


def test_a_version_that_was_deleted_stays_in_the_graph_by_its_digest(desk: Desk, lineage: Lineage) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(2, metadata=child("tone:1.0.0"))
    gone = desk.manifest(1).digest()
    with desk.database.transaction() as tx:
        tx.execute(text("UPDATE versions SET deleted_at = 'then' WHERE digest = :digest"), {"digest": gone})
    assert called(lineage.impact("local", EU)) == {f"version:{gone}", "tone:1.0.1"}
    assert f"version:{gone}" in called(lineage.graph("local", "tone"))
    assert called(lineage.impact("local", f"version:{gone}")) == {"tone:1.0.1"}


def test_pages_together_are_the_whole_and_each_says_how_much_there_is(desk: Desk, lineage: Lineage) -> None:
    for content in range(7):
        desk.push(content)
    desk.promote("tone:1.0.3")
    whole = lineage.impact("local", "base:tiny")
    seen: list[Any] = []
    token: str | None = None
    for _ in range(4):
        page = lineage.impact("local", "base:tiny", page_size=2, page_token=token)
        assert page.counts == {"route": 1, "version": 7}
        seen += page.nodes
        token = page.next_page_token
    assert token is None and tuple(seen) == whole.nodes
    graph = lineage.graph("local", "base:tiny", "downstream", limit=3)
    assert graph.truncated and len(graph.nodes) == 3
    assert {end for fact in graph.facts for end in (fact.edge.source, fact.edge.target)} <= {
        node.node for node in graph.nodes
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"page_size": 0},
        {"page_size": 1001},
        {"depth": 0},
        {"depth": 1001},
        {"kind": "planet"},
        {"page_token": "' OR 1=1"},
    ],
)
def test_questions_out_of_bounds_are_refused(desk: Desk, lineage: Lineage, asked: dict[str, Any]) -> None:
    desk.push(1)
    with pytest.raises(InvalidRequest):
        lineage.impact("local", "base:tiny", **asked)


def test_names_of_sql_are_names(desk: Desk, lineage: Lineage) -> None:
    desk.push(1)
    for name in ("dataset:' OR 1=1 --", 'dataset:"; DROP TABLE versions', "dataset:100%_:name", "dataset:a\\"):
        assert str(parse_node(name)) == name
        lineage.add("local", "tone", "trained_on", name, actor="me")
        assert called(lineage.impact("local", name)) == {"tone:1.0.0"}
        assert name in called(lineage.graph("local", "tone"))


def test_what_rules_lead_to_is_served_by_them(desk: Desk) -> None:
    for number in (1, 2):
        desk.push(number, metadata=TRAINED if number == 1 else child("tone:1.0.0"))
    digest = desk.registry.show("local", "tone:1.0.1").digest
    of = {"local": Endpoints((Endpoint("desk", digest, "then", "ann"),), frozenset({"desk", "empty"}))}
    lineage = Lineage(desk.database, endpoints=lambda tenant: of.get(tenant, Endpoints()))
    lineage.add("local", "application:crm", "uses", "route:desk", actor="me")
    found = lineage.impact("local", EU)
    assert called(found) == {"tone:1.0.0", "tone:1.0.1", "route:desk", "application:crm"}
    assert found.counts == {"application": 1, "route": 1, "version": 2}
    assert called(lineage.impact("local", EU, live=True)) == {"route:desk", "application:crm"}
    assert called(lineage.impact("local", EU, depth=2)) == {"tone:1.0.0", "tone:1.0.1"}
    assert called(lineage.impact("local", EU, depth=3)) == {"tone:1.0.0", "tone:1.0.1", "route:desk"}
    for graph in (lineage.graph("local", "application:crm"), lineage.graph("local", EU, "downstream")):
        assert ("route:desk", "serves", "tone:1.0.1") in edges(graph)
        assert [(fact.at, fact.by) for fact in graph.facts if fact.edge.role == "serves"] == [("then", "ann")]
    assert called(lineage.graph("local", "route:empty")) == {"route:empty"}
    with pytest.raises(NotFound):
        lineage.graph("local", "route:nope")


def test_rules_under_an_adapter_s_name_take_the_place_of_its_production(desk: Desk) -> None:
    desk.push(1, metadata=TRAINED)
    desk.push(2)
    desk.promote("tone:1.0.0")
    other = desk.registry.show("local", "tone:1.0.1").digest
    candidate = (Endpoint("tone", other, "then", "ann"),)
    told = Endpoints(candidate, frozenset({"tone"}))
    lineage = Lineage(desk.database, endpoints=lambda tenant: told)

    def served() -> set[str]:
        assert called(lineage.impact("local", "tone:1.0.1")) == {"route:tone"}
        of_data = called(lineage.impact("local", EU)) - {"tone:1.0.0"}
        assert called(lineage.graph("local", EU, "downstream")) == {EU, "tone:1.0.0", *of_data}
        found = {end for _, role, end in edges(lineage.graph("local", "route:tone")) if role == "serves"}
        assert ("tone:1.0.0" in found) == (of_data == {"route:tone"})
        return found

    assert served() == {"tone:1.0.1"}
    told = Endpoints(candidate)
    assert served() == {"tone:1.0.0", "tone:1.0.1"}, "beside it, as a rollout does"


def test_another_tenant_s_endpoints_are_not_there(desk: Desk) -> None:
    desk.push(1, metadata=TRAINED)
    digest = desk.registry.show("local", "tone:1.0.0").digest
    of = {"acme": Endpoints((Endpoint("desk", digest, "then", "ann"),), frozenset({"desk"}))}
    lineage = Lineage(desk.database, endpoints=lambda tenant: of.get(tenant, Endpoints()))
    assert called(lineage.impact("local", EU)) == {"tone:1.0.0"}
