"""Every format of a graph: read back by what reads it, whatever the names in it are."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prov.model import ProvDerivation, ProvDocument, ProvEntity, ProvUsage

from graftwork.errors import InvalidRequest
from graftwork.registry.lineage.formats import FORMATS, write_graph

DIGEST = "sha256:" + "a1" * 32


def node(id_: str, *versions: tuple[str, str]) -> dict[str, Any]:
    kind, _, rest = id_.partition(":")
    name, _, digest = rest.rpartition("@") if "@" in rest else (rest, "", "")
    registered = [
        {
            "adapter": adapter,
            "version": version,
            "stage": "production",
            "aliases": ["production"],
            "created_at": "2026-01-31T09:30:00.000001Z",
            "created_by": "ada",
        }
        for adapter, version in versions
    ]
    return {"id": id_, "kind": kind, "name": name, "digest": digest or None, "versions": registered}


def graph_of(nodes: list[dict[str, Any]], *edges: tuple[int, str, int], direction: str = "upstream") -> dict[str, Any]:
    told = [
        {"from": nodes[source]["id"], "role": role, "to": nodes[target]["id"], "at": "2026", "by": "ada"}
        for source, role, target in edges
    ]
    return {"roots": [nodes[0]["id"]], "direction": direction, "nodes": nodes, "edges": told, "truncated": False}


NODES = [
    node(f"version:{DIGEST}", ("tone", "1.0.1")),
    node(f"version:sha256:{'b2' * 32}", ("tone", "1.0.0")),
    node(f"dataset:s3://corpora/eu 2026@{DIGEST}"),
    node("code:https://x.org/r@0f3c2a1"),
    node("dataset:test"),
    node(f"base:tiny@{DIGEST}"),
]
DIAMOND = graph_of(
    NODES, (0, "derived_from", 1), (0, "trained_on", 2), (1, "trained_on", 2), (0, "built_with", 3),
    (0, "evaluated_on", 4), (0, "based_on", 5), (1, "based_on", 5), (2, "derived_from", 4),
)  # fmt: skip


def test_a_tree_names_what_comes_again_and_unfolds_it_once() -> None:
    assert write_graph(DIAMOND, "tree").splitlines() == [
        "tone:1.0.1 (@production)",
        "  based_on → base:tiny@sha256:a1a1a1a1a1a1",
        "  built_with → code:https://x.org/r@0f3c2a1",
        "  derived_from → tone:1.0.0 (@production)",
        "    based_on → base:tiny@sha256:a1a1a1a1a1a1",
        "    trained_on → dataset:s3://corpora/eu 2026@sha256:a1a1a1a1a1a1",
        "      derived_from → dataset:test",
        "  evaluated_on → dataset:test",
        "  trained_on → dataset:s3://corpora/eu 2026@sha256:a1a1a1a1a1a1 (see above)",
    ]
    down = graph_of([NODES[2], NODES[1]], (1, "trained_on", 0), direction="downstream")
    assert write_graph(down, "tree").splitlines()[1] == "  trained_on ← tone:1.0.0 (@production)"
    circle = graph_of(NODES[:2], (0, "derived_from", 1), (1, "derived_from", 0))
    assert "(see above)" in write_graph({**circle, "truncated": True}, "tree")


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1)


@given(NAMES)
def test_no_name_breaks_a_drawing(name: str) -> None:
    graph = graph_of([node(f"version:{DIGEST}", ("tone", "1.0.0")), node(f"dataset:{name}")], (0, "trained_on", 1))
    head, *lines = write_graph(graph, "mermaid").split("\n")
    assert head == "flowchart LR" and len(lines) == 4 and lines[3] == ""
    quoted = re.fullmatch(r'  n1\[\("((?:[^"#<>`;&|]|#\d+;)*)"\)\]', lines[1])
    assert quoted is not None and lines[2] == "  n0 -->|trained_on| n1"
    shown = re.sub(r"#(\d+);", lambda code: chr(int(code[1])), quoted[1])
    assert shown.startswith("dataset:")

    drawn = write_graph(graph, "dot").split("\n")
    label = re.fullmatch(r'  n1 \[label="((?:[^"\\]|\\.)*)", shape=cylinder\];', drawn[3])
    assert label is not None and len(drawn) == 7
    assert re.sub(r"\\(.)", r"\1", label[1]).replace("&amp;", "&") == shown


@given(NAMES)
def test_any_graph_is_prov_json(name: str) -> None:
    graph = graph_of([*NODES, node(f"dataset:{name}/x")], (0, "trained_on", 6), (0, "derived_from", 1))
    document = ProvDocument.deserialize(content=write_graph(graph, "prov"), format="json")
    labels = {str(next(iter(one.get_attribute("prov:label")))) for one in document.get_records(ProvEntity)}
    assert labels == {one["id"] for one in graph["nodes"]}


def test_what_has_many_names_is_drawn_with_a_few_and_began_with_the_first() -> None:
    named = node(f"version:{DIGEST}", *((name, "1.0.0") for name in ("tone", "a", "b", "c", "d")))
    named["versions"][2] |= {"created_at": "2026-01-01T00:00:00.000000Z", "created_by": "bob"}
    said = (
        "tone:1.0.0 (@production), also a:1.0.0 (@production), b:1.0.0 (@production), c:1.0.0 (@production) and 1 more"
    )
    assert write_graph(graph_of([named]), "tree") == f"{said}\n"
    agents = json.loads(write_graph(graph_of([named]), "prov"))["agent"]
    assert list(agents) == ["graftwork:agent%2Fbob"]


def test_prov_says_what_was_used_and_what_was_derived() -> None:
    document = ProvDocument.deserialize(content=write_graph(DIAMOND, "prov"), format="json")
    assert len(list(document.get_records(ProvDerivation))) == 2
    # By the trainings: data twice, code once, bases twice; by the evaluation: the version and the data.
    assert len(list(document.get_records(ProvUsage))) == 7
    assert document.unified() == document, "nothing is said twice"


#: As https://openlineage.io/spec/2-0-2/OpenLineage.json says of run events, in short.
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["_producer", "_schemaURL"],
        "properties": {"_producer": {"format": "uri"}, "_schemaURL": {"format": "uri"}, "url": {"format": "uri"}},
    },
}
NAMED = {"type": "string"}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "name"],
        "properties": {"namespace": NAMED, "name": NAMED, "facets": FACETS},
    },
}
RUN_EVENT = {
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventTime": {"type": "string", "format": "date-time"},
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "producer": {"type": "string", "format": "uri"},
        "schemaURL": {"type": "string", "format": "uri"},
        "run": {"type": "object", "required": ["runId"], "properties": {"runId": {"format": "uuid"}}},
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"namespace": NAMED, "name": NAMED, "facets": FACETS},
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
    },
}
is_run_event = jsonschema_rs.Draft202012Validator(RUN_EVENT, validate_formats=True)


def test_openlineage_has_an_event_for_each_registration() -> None:
    first, second = map(json.loads, write_graph(DIAMOND, "openlineage").splitlines())
    for event in (first, second):
        is_run_event.validate(event)
    assert first["run"]["runId"] != second["run"]["runId"]
    assert first["outputs"][0]["name"] == "tone:1.0.1"
    inputs = {(one["namespace"], one["name"]) for one in first["inputs"]}
    assert inputs == {("s3://corpora", "eu 2026"), ("graftwork", "tone:1.0.0"), ("graftwork", "tiny")}
    assert first["job"]["facets"]["sourceCodeLocation"]["version"] == "0f3c2a1"


@given(NAMES)
def test_any_name_makes_valid_events(name: str) -> None:
    nodes = [NODES[0], node(f"dataset:{name}"), node(f"code:{name}://{name}@0f3c2a1")]
    (event,) = write_graph(graph_of(nodes, (0, "trained_on", 1), (0, "built_with", 2)), "openlineage").split("\n")[:-1]
    is_run_event.validate(json.loads(event))


def test_a_format_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InvalidRequest, match=", ".join(FORMATS)):
        write_graph(DIAMOND, "svg")
