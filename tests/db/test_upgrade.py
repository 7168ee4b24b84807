"""A registry that an earlier release wrote, database and files: today's code opens it, and goes on with it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from graftwork.access.events import verify_chain
from graftwork.artifacts.digest import hex_of
from graftwork.db import Database
from graftwork.db.schema import HEAD
from graftwork.errors import Conflict
from graftwork.settings import Settings
from support.served import Served, serving

OLD = Path(__file__).parent / "data" / "of_0004"
VERSIONS = ("tone:1.0.0", "tone:1.1.0", "tone:1.1.1", "voice:1.0.0")


@pytest.fixture
def upgraded(empty_url: str, database_kind: str, settings: Settings, tmp_path: Path) -> Iterator[Served]:
    """An app of today on what is in `OLD`."""
    script = (OLD / f"{database_kind}.sql").read_text()
    if database_kind == "sqlite":
        path = Path(empty_url.removeprefix("sqlite:///"))
        path.unlink()  # what a new home starts with
        sqlite3.connect(path).executescript(script).close()
    else:
        with psycopg.connect(empty_url) as connection:
            connection.execute(script.encode())
    shutil.copytree(OLD / "artifacts", settings.home / "artifacts", dirs_exist_ok=True)
    with serving(settings.model_copy(update={"database_url": empty_url}), tmp_path) as served:
        yield served


def folder_of(served: Served, reference: str) -> Path:
    """The files of a version, as somebody has them who pushed them then."""
    made = served.folder / reference.replace(":", "-")
    made.mkdir()
    for file in served.client.show(reference)["manifest"]["files"]:
        digest = hex_of(file["digest"])
        shutil.copy(OLD / "artifacts" / "local" / "sha256" / digest[:2] / digest, made / file["path"])
    return made


def test_what_an_earlier_release_wrote_is_as_it_was(upgraded: Served, empty_url: str, database_kind: str) -> None:
    client = upgraded.client
    with Database(empty_url) as database, database.reading() as tx:
        assert tx.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        events = re.findall("INSERT INTO .*events", (OLD / f"{database_kind}.sql").read_text())
        assert verify_chain(tx) == len(events) > 10
    found = [f"{name}:{one['semver']}" for name in ("tone", "voice") for one in reversed(client.versions(name))]
    assert found == list(VERSIONS)
    assert {one["alias"]: one["version"] for one in client.aliases("tone")} == {
        "champion": "1.0.0",
        "production": "1.1.0",
        "previous": "1.0.0",
    }
    moves = client.history("tone", alias="production")
    assert [client.show("tone", at=event["at"])["semver"] for event in moves] == ["1.0.0", "1.1.0", "1.1.1", "1.1.0"]
    assert client.show("tone@champion", at=moves[0]["at"])["stage"] == "production"

    report = client.verify()
    assert (report["versions"], report["problems"]) == (4, [])
    evaluations = [one["evaluation"] for one in client.evaluations.list("tone:1.1.0")]
    assert [(one.get("supersedes"), one["metrics"][0]["value"]) for one in evaluations] == [(1, 0.5), (None, 0.25)]
    unwanted = client.retention.gc(dry_run=True, older_than_s=0, quarantine_s=0)
    assert (unwanted["items"], unwanted["young"]["blobs"]) == ([], 0)


def test_what_an_earlier_release_took_as_metadata_breaks_no_door(upgraded: Served) -> None:
    """It took any; what is no fact now is passed over."""
    client = upgraded.client
    for reference in VERSIONS:
        assert isinstance(client.show(reference)["metadata"], dict)
        assert "base_model" in client.documents.card(reference)
        assert client.documents.bom(reference)["bomFormat"] == "CycloneDX"
        assert ["base", "fake-base"] in [
            [node["kind"], node["name"]] for node in client.lineage.graph(reference)["nodes"]
        ]
    found = [client.searches.find(filter)[0]["semver"] for filter in ("metrics.accuracy > 0.4", "stage = production")]
    assert found == ["1.1.0", "1.1.0"]
    assert [one["semver"] for one in client.searches.find(text="words first")] == ["1.0.0"]


def test_what_an_earlier_release_wrote_is_gone_on_with(upgraded: Served) -> None:
    client = upgraded.client
    same = client.push(folder_of(upgraded, "tone:1.0.0"), "tone")
    assert (same["semver"], same["created"], same["stage"]) == ("1.0.0", False, "archived")
    assert [upgraded.push("tone", seed=seed)["semver"] for seed in (8, 9)] == ["1.1.2", "1.1.3"]

    # A retry of what was asked before the upgrade is answered as then, and not done again.
    assert client.rollback("tone", reason="it was not", idempotency_key="rollback-tone")["semver"] == "1.1.0"
    assert client.rollback("tone")["semver"] == "1.0.0"
    with pytest.raises(Conflict):
        client.rollback("tone")
    client.promote("tone:1.1.2")
    client.lifecycle.set_stage("tone:1.1.0", "staging")
    assert [one["stage"] for one in client.versions("tone")] == [
        "development",
        "production",
        "archived",
        "staging",
        "archived",
    ]
    client.retention.delete("tone:1.1.1")
    gone = client.retention.gc(older_than_s=0)
    assert {item["name"] for item in gone["items"]} == {"tone:1.1.1"}
    assert client.verify()["problems"] == []
    assert len(client.evaluations.list("tone:1.1.0")) == 2
