"""`graftwork shadow`, and what other verbs say of copies, of a server that makes them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora
from support.on_socket import on_socket
from support.rollouts import document
from support.waiting import eventually

if TYPE_CHECKING:
    from cli.conftest import Cli, Ran


class Shell:
    """The command line against a server, and the id of a request that was copied there."""

    def __init__(self, cli: Cli, url: str, request_id: str) -> None:
        self._cli, self._url, self.request_id = cli, url, request_id

    def __call__(self, *arguments: str) -> Ran:
        return self._cli("--url", self._url, *arguments)


@pytest.fixture
def shell(cli: Cli, tmp_path: Path) -> Iterator[Shell]:
    engine = FakeEngine(answers={"same": "yes"})
    app = build_app(Settings(), engine=engine, outline_of=lambda: engine.outline)
    with on_socket(app) as url, Client(url) as client:
        for number in (1, 2):
            client.push(write_lora(tmp_path / f"lora-{number}", engine.outline, seed=number), f"desk:{number}.0.0")
        client.promote("desk:1.0.0")
        file = tmp_path / "rollout.yaml"
        file.write_text(yaml.safe_dump(document("desk", {"shadow": {"mirror": 100}}, "desk:2.0.0")))
        assert cli("--url", url, "rollout", "start", str(file)).code == 0
        eventually(lambda: client.rollouts.show("desk")["held"] == "step")
        client.chat("same", model="desk")
        client.chat("other", model="desk")
        eventually(lambda: len(client.shadows.list()) == 2)
        yield Shell(cli, url, client.shadows.list()[0]["request_id"])


def test_copies_are_listed_and_reported(shell: Shell) -> None:
    report = shell("shadow", "report", "desk").out
    for told in (r"answers +desk:1\.0\.0", r"shadow +desk:2\.0\.0", r"copies +2, 0 failed, 0 timed out"):
        assert re.search(told, report), report
    assert re.search(r"exact +50\.0 % of 2 \([\d.]+ to [\d.]+ %\)", report)
    assert re.search(rf"differs +{shell.request_id}  0\.\d+  ok", report)
    assert shell("shadow", "report", "desk", "-o", "json").json()[0]["copies"] == 2
    assert shell.request_id in shell("shadow", "list", "desk").out
    for verb in ("report", "list"):
        unknown = shell("shadow", verb, "nowhere")
        assert (unknown.code, unknown.out, "no route nowhere" in unknown.err) == (1, "", True)
    rows = list(csv.DictReader(io.StringIO(shell("shadow", "list", "--differing", "-o", "csv").out)))
    assert [row["request_id"] for row in rows] == [shell.request_id]
    assert shell("shadow", "list", "--outcome", "error").err.startswith("No such copies")


def test_an_explanation_and_a_rollout_say_that_copies_are_made(shell: Shell) -> None:
    assert "100 % of requests are copied" in shell("rollout", "status", "desk").out
    assert re.search(
        r"shadow  desk:2\.0\.0 \(desk/1\): answered, similarity 0\.\d+", shell("explain", shell.request_id).out
    )
    assert len(shell("explain", shell.request_id, "-o", "json").json()["shadows"]) == 1
