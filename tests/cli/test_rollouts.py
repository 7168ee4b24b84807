"""The verbs of rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from graftwork.adapters.outline import Outline
from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora
from support.analysis import template
from support.on_socket import on_socket
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
    assert "`graftwork serve` starts one" in begun.err, "nothing moves it here"
    return cli


def test_a_rollout_is_shown_paused_resumed_aborted_tried_again_and_promoted(started: Cli) -> None:
    (row,) = started("rollout", "status", "-o", "json").json()
    assert (row["route"], row["status"]) == ("support", "warming")
    for verb in (("status",), ("status", "support"), ("pause", "support"), ("resume", "support")):
        assert "only while a server runs" in started("rollout", *verb).err
    assert "stable support:1.0.0 100 %" in started("rollout", "status").out
    paused = started("rollout", "pause", "support", "--reason", "lunch")
    assert "paused (asked)" in paused.out and "lunch" in paused.out
    assert "graftwork rollout resume support" in paused.out
    assert started("rollout", "resume", "support", "-o", "json").json()["status"] == "warming"
    assert started("rollout", "abort", "support", "-o", "yaml").code == 0
    assert "graftwork rollout retry support" in started("rollout", "status", "support").out
    assert started("rollout", "retry", "support", "-o", "json").json()["revision"] == 2
    assert started("rollout", "promote", "support", "-o", "json").json()["status"] == "promoted"
    assert started("show", "support", "-o", "json").json()["semver"] == "2.0.0"
    watched = started("rollout", "watch", "support")
    assert (watched.code, "promoted" in watched.out, len(watched.out.splitlines())) == (0, True, 1)
    assert watched.err == "", "it is over: no server is needed for it"


def test_a_promotion_that_was_taken_back_is_not_said_to_be_so(started: Cli) -> None:
    assert started("rollout", "promote", "support").code == started("rollout", "promote", "support").code == 0
    started("rollback", "support")
    again = started("rollout", "promote", "support")
    assert (again.code, again.out) == (1, "")
    for told in ("means support:1.0.0 now", "graftwork rollout start", "graftwork stage set support:2.0.0 staging"):
        assert told in again.err


def test_what_the_policy_keeps_out_of_production_names_what_lets_it_in(started: Cli, tmp_path: Path) -> None:
    policy = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy", "metadata": {}}
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump({**policy, "spec": {"require": {"production": ["approval", "staging"]}}}))
    assert started("policy", "set", str(file)).code == 0
    for verb in (("rollout", "promote", "support"), ("promote", "support:2.0.0")):
        refused = started(*verb)
        assert refused.code == 1
        assert "`graftwork approve support:2.0.0` and `graftwork stage set support:2.0.0 staging`" in refused.err
    started("approve", "support:2.0.0")
    started("stage", "set", "support:2.0.0", "staging")
    assert started("rollout", "promote", "support").code == 0


def test_watching_tells_what_gates_say(cli: Cli, outline: Outline, tmp_path: Path) -> None:
    engine = FakeEngine(outline=outline)
    app = build_app(Settings(), engine=engine, outline_of=lambda: engine.outline)
    rating = {
        "name": "rating",
        "provider": {"feedback": {"name": "rating"}},
        "failureCondition": "result < {{args.least}}",
    }
    with on_socket(app) as url, Client(url) as client:
        for number in (1, 2):
            client.push(write_lora(tmp_path / f"a{number}", outline, seed=number), f"support:{number}.0.0")
        client.promote("support:1.0.0")
        client.analyses.set(template(rating, args=[{"name": "least"}]))
        analysis = {"name": "careful", "args": [{"name": "least", "value": 0.5}]}
        judged = {"shadow": {"mirror": 100, "duration": "1500ms", "analysis": analysis}}
        client.rollouts.start(document("support", judged))
        watched = cli("--url", url, "rollout", "watch", "support")
        shown = cli("--url", url, "rollout", "status", "support")
    assert "candidate: careful least=0.5: rating" in shown.out
    assert (watched.code, watched.err) == (0, "")
    standing = [line for line in watched.out.splitlines() if "  candidate: careful least=0.5  inconclusive: " in line]
    assert len(standing) == 1 and "rating: " in standing[0], watched.out
    assert "completed" in watched.out.splitlines()[-1]


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
