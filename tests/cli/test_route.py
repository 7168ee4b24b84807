"""graftwork route: documents from files, what they decide, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora

if TYPE_CHECKING:
    from cli.conftest import Cli

ROUTE = """\
apiVersion: adapters.graftwork.dev/v1alpha1
kind: Route
metadata: {name: desk}
spec:
  rules:
    - name: french
      matches: [{locale: fr, headers: [{name: X-Plan, exact: gold}]}]
      targets: [{reference: "alpha:1.0.0"}]
    - {name: rest, refuse: {status: 451, message: closed}}
"""


def test_a_route_is_set_explained_rolled_back_and_removed(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    cli("push", str(write_lora(tmp_path / "a", outline)), "alpha:1.0.0")
    file = tmp_path / "route.yaml"
    file.write_text(ROUTE)
    made = cli("route", "set", "-f", str(file), "--expect", "absent", "-o", "json").json()
    assert cli("route", "list").out.splitlines()[1].split()[:3] == ["desk", "1", "2"]
    told = cli("route", "explain", "desk", "--header", "X-Plan: gold", "--locale", "fr-CA,de", "--json").json()
    assert (told["rule"], told["model"]) == ("french", "alpha:1.0.0")
    shown = cli("route", "explain", "desk", "--locale", "fr").out
    assert "header x-plan is not there, not exact 'gold'" in shown and "451: closed" in shown
    document = cli("route", "show", "desk").out
    assert yaml.safe_load(document)["spec"] == made["spec"]
    file.write_text(ROUTE.replace("1.0.0", "9.0.0"))
    changed = cli("route", "set", "-f", str(file), "--expect", made["status"]["digest"])
    assert (changed.code, "alpha:9.0.0 names no version" in changed.out) == (0, True)
    assert cli("route", "set", "-f", str(file), "--expect", "absent").code == 1
    assert cli("route", "rollback", "desk", "-o", "json").json()["status"]["revision"] == 1
    assert [line.split()[:2] for line in cli("route", "history", "desk").out.splitlines()[1:]] == [
        ["2", "-"],
        ["1", "live"],
    ]
    assert cli("route", "rm", "desk", "-o", "json").json()["removed"] is True
    assert cli("route", "explain", "desk").code == 1
    assert cli("route", "explain", "desk", "--header", "no colon").code == 2
    wrong = cli("route", "set", "-f", str(tmp_path / "a" / "adapter_config.json"))
    assert wrong.code == 1 and "adapter_config.json: peft_type is not a field" in wrong.err
