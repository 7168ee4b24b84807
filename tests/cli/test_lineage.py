"""The verbs of lineage: trees, drawings, documents for other tools, impact."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora

if TYPE_CHECKING:
    from cli.conftest import Cli


def test_lineage_and_impact(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    assert (
        cli("push", str(write_lora(tmp_path / "a", outline)), "add").code == 0
    )  # a name that is a verb of lineage, too
    cli("promote", "add")
    assert cli("lineage", "add", "add@production", "trained_on", "dataset:s3://c/eu", "--reason", "x").code == 0
    assert cli("lineage", "add", "application:crm", "uses", "route:add", "-o", "json").json()["created"] is True
    tree = cli("lineage", "add@production").out.splitlines()
    assert tree[0] == "add:1.0.0 (@production)" and tree[2] == "  trained_on → dataset:s3://c/eu"
    assert cli("lineage", "--format", "mermaid", "add@production").out.startswith("flowchart LR\n")
    assert json.loads(cli("lineage", "show", "add", "--format", "prov", "-o", "json").out)["prefix"]
    assert len(cli("lineage", "add@production", "-o", "json").json()["nodes"]) == 3
    impact = cli("impact", "dataset:s3://c/eu", "--output", "json").json()
    assert impact["counts"] == {"application": 1, "route": 1, "version": 1}
    assert "@production" in cli("impact", "dataset:s3://c/eu").out
    first = cli("impact", "dataset:s3://c/eu", "--page-size", "1").out
    assert "… of 3: 1 application, 1 route, 1 version." in first
    assert cli("impact", "dataset:nope").code == 1
    refused = cli("lineage", "add", "--format", "svg")
    assert refused.code != 0
    cli("push", str(tmp_path / "a"), "also:2.0.0")
    *_, first, second, total = cli("impact", "dataset:s3://c/eu").out.splitlines()
    assert first.split() == ["version", "add:1.0.0", "production", "@production"]
    assert (second.split(), total) == (
        ["same", "bytes", "also:2.0.0", "development", "-"], "3: 1 application, 1 route, 1 version"
    )  # fmt: skip
    live = cli("impact", "dataset:s3://c/eu", "--live").out
    assert "also:2.0.0" not in live and "add:1.0.0" in live
    for end, word in (
        ("datset:x", "Did you mean dataset?"),
        ("s3://corpora/x", "Did you mean dataset:s3://corpora/x?"),
    ):
        assert word in cli("impact", end).err
    assert "not a semantic version" in cli("impact", "add:1.x").err
