"""explain, prediction, feedback and usage on the command line, of answers that a server of the same home gave."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.settings import Settings
from support.served import serving

if TYPE_CHECKING:
    from cli.conftest import Cli

RECORDING = """
apiVersion: adapters.graftwork.dev/v1alpha1
kind: Recording
spec: {mode: strict, keepDays: 7}
"""


@pytest.fixture
def request_id(cli: Cli, tmp_path: Path) -> Iterator[str]:
    """Of an answer by `alpha:1.0.0`, in production, to ann."""
    with serving(Settings(), tmp_path) as served:
        served.push("alpha")
        served.client.promote("alpha:1.0.0", reason="passed review")
        answer = served.chat(model="alpha", user="ann", max_tokens=2, temperature=0)
        served.chat(user="bob")
    yield answer.headers["x-graftwork-request"]


def test_an_answer_is_explained(cli: Cli, request_id: str) -> None:
    assert cli("feedback", request_id, "rating", "--value", "0.5", "--label", "fair").code == 0
    shown = cli("explain", request_id).out
    for told in (request_id, "alpha:1.0.0", "@production was 1.0.0, by local", "passed review", "rating 0.5 fair"):
        assert told in shown
    found = cli("explain", f"chatcmpl-{request_id}", "--output", "json").json()
    assert found["prediction"]["decision"] == "model:production" and found["feedback"][0]["label"] == "fair"
    unknown = cli("explain", "0" * 32)
    assert (unknown.code, "no record" in unknown.err, "graftwork prediction list" in unknown.err) == (1, True, True)
    assert request_id in cli("explain", request_id[:8]).out
    assert cli("explain", request_id[:7]).code == 1
    assert cli("feedback", request_id, "rating").code == 2


def test_answers_are_listed_and_a_user_is_forgotten(cli: Cli, request_id: str) -> None:
    listed = cli("prediction", "list", "--adapter", "alpha", "--limit", "5")
    assert request_id in listed.out and "bob" not in listed.out
    assert [row["user_id"] for row in cli("prediction", "list", "-o", "json").json()] == ["bob", "ann"]
    assert cli("prediction", "forget", "--user", "ann", "-o", "json").json() == {"deleted": 1}
    assert cli("prediction", "list", "--user", "ann").err.startswith("No such answers")


def test_usage_is_shown_as_a_table_and_as_csv(cli: Cli, request_id: str) -> None:
    assert "alpha" in cli("usage").out
    rows = list(csv.DictReader(io.StringIO(cli("usage", "--output", "csv").out)))
    assert [(row["adapter"], row["requests"], row["output_tokens"]) for row in rows if row["adapter"] == "alpha"] == [
        ("alpha", "1", "2")
    ]
    assert cli("usage", "--until", "2000-01-01").err.startswith("Nothing was used")


def test_how_answers_are_recorded_is_shown_and_set(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "recording.yaml"
    file.write_text(RECORDING)
    assert cli("prediction", "recording", "-o", "json").json()["spec"]["mode"] is None
    assert "strict" in cli("prediction", "recording", "--file", str(file)).out
    assert cli("prediction", "recording", "-o", "json").json()["spec"]["keepDays"] == 7
