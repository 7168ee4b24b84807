"""inspect: the account of a folder, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora

if TYPE_CHECKING:
    from cli.conftest import Cli


def test_a_good_adapter_is_accounted_tensor_by_tensor(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "a", outline)
    account = cli("inspect", str(folder), "--output", "json").json()
    assert (account["ok"], account["unused"], account["rank"]) == (True, [], 4)
    assert len(account["tensors"]) == 2 * len(outline.linears)
    table = cli("inspect", str(folder))
    assert table.code == 0
    assert table.out.index("servable") < table.out.index("lora_A")


def test_a_bad_adapter_exits_1_with_its_problems_and_its_account(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "a", outline)
    (folder / "adapter_config.json").write_text("{")
    ran = cli("inspect", str(folder), "--output", "json")
    assert ran.code == 1
    assert '"ok": false' in ran.out
    assert "refused: " in ran.err
    assert "adapter_config.json" in ran.err
    facts = dict(line.split() for line in cli("inspect", str(folder)).out.splitlines() if "tensors" not in line)
    assert (facts["servable"], facts["rank"], facts["size"]) == ("NO", "-", "-")


def test_what_is_found_beside_the_weights_is_shown(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "a", outline)
    (folder / "generation_config.json").write_text('{"temperature": 0.5}')
    assert "generation_config.json" in cli("inspect", str(folder)).out
    found = cli("inspect", str(folder), "--output", "json").json()["companions"]
    assert found["defaults"] == {"temperature": 0.5}


def test_nothing_is_registered(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    cli("inspect", str(write_lora(tmp_path / "a", outline)))
    assert cli("list", "-o", "json").json() == []
