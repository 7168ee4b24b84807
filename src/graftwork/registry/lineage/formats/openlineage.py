"""openlineage: the versions of a graph as OpenLineage run events, one JSON object per line (spec 2-0-2).

Each registration is one COMPLETE event of the job `push/ADAPTER`: its inputs are the datasets, bases and parents that
the version was made of, its output the version; the code that made it is the job's source code location.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from graftwork.version import __version__

NAMESPACE = "graftwork"
PRODUCER = f"https://pypi.org/project/graftwork/{__version__}/"
SPEC = "https://openlineage.io/spec"
_INPUTS = ("based_on", "derived_from", "merged_from", "trained_on")
#: Repositories that are URIs as they are written; `git@host:path` is none.
_URL = re.compile(r"(https?|ssh|git)://[A-Za-z0-9._~/:@+-]+")
_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, "urn:graftwork:run")


def openlineage(graph: Mapping[str, Any]) -> str:
    """Events in the order of the graph; nothing where no version in it is registered."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    lines = (json.dumps(event, ensure_ascii=False) for node in graph["nodes"] for event in _events(graph, nodes, node))
    return "".join(f"{line}\n" for line in lines)


def _events(
    graph: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]], node: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    made_of = [edge for edge in graph["edges"] if edge["from"] == node["id"]]
    code = [nodes[edge["to"]] for edge in made_of if edge["role"] == "built_with"]
    for registered in node["versions"]:
        name = f"{registered['adapter']}:{registered['version']}"
        yield {
            "eventType": "COMPLETE",
            "eventTime": registered["created_at"],
            "producer": PRODUCER,
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": str(uuid.uuid5(_RUNS, f"{name}@{node['name']}"))},
            "job": {"namespace": NAMESPACE, "name": f"push/{registered['adapter']}", "facets": _source(code)},
            "inputs": [_dataset(nodes[edge["to"]]) for edge in made_of if edge["role"] in _INPUTS],
            "outputs": [_named(name, node["name"])],
        }


def _source(code: list[Mapping[str, Any]]) -> dict[str, Any]:
    if not code:
        return {}
    facet = _facet("1-1-0", "SourceCodeLocationJobFacet")
    repo = code[0]["name"]
    url = repo if _URL.fullmatch(repo) else f"urn:graftwork:code:{quote(repo, safe='')}"
    where = {"type": "git", "url": url, "repoUrl": repo, "version": code[0]["digest"]}
    return {"sourceCodeLocation": {**facet, **where}}


def _dataset(node: Mapping[str, Any]) -> dict[str, Any]:
    if node["versions"]:
        return _named(f"{node['versions'][0]['adapter']}:{node['versions'][0]['version']}", node["name"])
    if node["kind"] != "dataset":
        return _named(node["name"], node["digest"], NAMESPACE)
    # OpenLineage names what has a URI by where it lies (`s3://bucket`) and its path there.
    scheme, separator, rest = node["name"].partition("://")
    authority, _, path = rest.partition("/")
    if not separator or not path:
        return _named(node["name"], node["digest"])
    return _named(path, node["digest"], f"{scheme}://{authority}")


def _named(name: str, version: str | None, namespace: str = NAMESPACE) -> dict[str, Any]:
    facets = {"version": {**_facet("1-0-1", "DatasetVersionDatasetFacet"), "datasetVersion": version}}
    return {"namespace": namespace, "name": name, **({"facets": facets} if version else {})}


def _facet(revision: str, name: str) -> dict[str, str]:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{revision}/{name}.json#/$defs/{name}"}
