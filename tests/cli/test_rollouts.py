"""The verbs of rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from graftwork.adapters.outline import Outline
from graftwork.testing import write_lora
from support.rollouts import canary, document, hold, weight

if TYPE_CHECKING:
    from cli.conftest import Cli


@pytest.fixture
def started(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    """Two versions, the first in production, and a rollout that waits for a server to warm the second."""
    for number in (1, 2):
        cli("push", str(write_lora(tmp_path / f"a{number}", outline, seed=number)), f"support:{number}.0.0")
    cli("promote", "support:1.0.0")
    file = tmp_path / "rollout.yaml"
    file.write_text(yaml.safe_dump(document("support", canary(weight(5), hold("10m")))))
    begun = cli("rollout", "start", str(file), "--reason", "newer data")
    assert "support:2.0.0  0 %" in begun.out and "newer data" in begun.out, begun.err
    return cli


def test_a_rollout_is_shown_paused_resumed_aborted_tried_again_and_promoted(started: Cli) -> None:
    (row,) = started("rollout", "status", "-o", "json").json()
    assert (row["route"], row["status"]) == ("support", "warming")
    assert "stable support:1.0.0 100 %" in started("rollout", "status").out
    paused = started("rollout", "pause", "support", "--reason", "lunch")
    assert "paused (asked)" in paused.out and "lunch" in paused.out
    assert started("rollout", "resume", "support", "-o", "json").json()["status"] == "warming"
    assert started("rollout", "abort", "support", "-o", "yaml").code == 0
    assert started("rollout", "retry", "support", "-o", "json").json()["revision"] == 2
    assert started("rollout", "promote", "support", "-o", "json").json()["status"] == "promoted"
    assert started("show", "support", "-o", "json").json()["semver"] == "2.0.0"
    watched = started("rollout", "watch", "support")
    assert (watched.code, "promoted" in watched.out, len(watched.out.splitlines())) == (0, True, 1)


def test_what_is_wrong_is_one_message(started: Cli, tmp_path: Path) -> None:
    assert started("rollout", "abort", "nowhere").code == 1
    ended = started("rollout", "resume", "support")
    assert (ended.code, "not paused" in ended.err) == (1, True)
    file = tmp_path / "wrong.yaml"
    file.write_text("[]")
    assert started("rollout", "start", str(file)).code == 2
    file.write_text(yaml.safe_dump(document("support", canary(weight(101)))))
    wrong = started("rollout", "start", str(file))
    assert (wrong.code, "setWeight" in wrong.err) == (1, True)
