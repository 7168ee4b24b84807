"""The verbs of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from graftwork.cli.context import Context
from graftwork.client import Client
from support.served import Served

if TYPE_CHECKING:
    from cli.conftest import Cli

MOOD = """\
apiVersion: adapters.graftwork.dev/v1alpha1
kind: Task
metadata: {name: mood}
spec:
  fields: {word: {type: string, default: good}}
  prompt: {text: "{{ text }} {{ word }}?"}
  output: {type: label, choices: [yes_, no_]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mood.yaml"
    file.write_text(MOOD)
    return file


def test_a_task_is_set_from_a_file_listed_shown_and_removed(cli: Cli, file: Path) -> None:
    made = cli("task", "set", "-f", str(file), "--reason", "new", "--output", "json").json()
    assert (made["metadata"]["name"], made["status"]["revision"]) == ("mood", 1)
    assert "mood" in cli("task", "list").out and "label" in cli("task", "list").out
    shown = cli("task", "show", "mood").out
    file.write_text(shown)
    assert yaml.safe_load(shown)["spec"]["output"]["choices"] == ["yes_", "no_"]
    assert "revision  1" in cli("task", "set", "-f", str(file)).out  # it reads back as it was written
    refused = cli("task", "set", "-f", str(file), "--expect", "absent")
    assert refused.code == 1 and "is at revision 1" in refused.err
    assert cli("task", "history", "mood", "--output", "json").json()[0]["status"]["reason"] == "new"
    assert cli("task", "rm", "mood", "--expect", made["status"]["digest"]).code == 0
    assert cli("task", "show", "mood").code == 1
    file.write_text(MOOD.replace("label", "lable"))
    wrong = cli("task", "set", "-f", str(file))
    assert wrong.code == 1 and "spec.output.type" in wrong.err


def test_a_task_is_run_on_one_text_or_on_several(
    cli: Cli, file: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client(_: Context, **__: Any) -> Client:
        return Client(http=served.http)

    monkeypatch.setattr(Context, "client", client)
    monkeypatch.setattr(Client, "close", lambda _: None)
    cli("task", "set", "-f", str(file))
    served.engine.answers |= {"is it good?": "yes_", "is it 7?": "no_", "what good?": "eh"}
    assert cli("task", "run", "mood", "is it").out == "yes_\n"
    assert cli("task", "run", "mood", "is it", "--field", 'word="7"').out == "no_\n"
    several = cli("task", "run", "mood", "is it", "what", "is it", "--output", "json")
    assert (several.code, [one["result"] for one in json.loads(several.out)["data"]]) == (1, ["yes_", None, "yes_"])
    shown = cli("task", "run", "mood", "is it", "what")
    assert (shown.out, shown.code) == ("yes_\n", 1) and "The answer is not one of yes_, no_." in shown.err
    unreadable = cli("task", "run", "mood", "what")
    assert unreadable.code == 1 and "not one of" in unreadable.err
    assert cli("task", "run", "mood", "is it", "--field", "word").code == 2
