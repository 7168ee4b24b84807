"""The verbs of webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Cli

URL = "https://hooks.example/x"


def test_a_webhook_is_set_listed_tested_rotated_and_removed(cli: Cli) -> None:
    made = cli("webhook", "set", "ci", URL, "--event", "rollout.*", "--event", "alias.set", "--output", "json").json()
    assert made["secret"].startswith("whsec_")
    assert "rollout.*, alias.set" in cli("webhook", "list").out
    assert "whsec_" not in cli("webhook", "show", "ci").out
    queued = cli("webhook", "test", "ci", "--wait", "0", "--output", "json").json()
    assert queued["status"] == "pending"
    assert queued["id"] in cli("webhook", "deliveries", "ci", "--status", "pending").out
    assert cli("webhook", "retry", "ci", "--output", "json").json() == {"retried": 0}
    refused = cli("webhook", "retry", "ci", queued["id"])
    assert refused.code == 1 and "is pending" in refused.err
    assert "whsec_" in cli("webhook", "rotate", "ci", "--overlap", "60").out
    assert cli("webhook", "rm", "ci").code == 0
    assert cli("webhook", "show", "ci").code == 1
    private = cli("webhook", "set", "ci", "https://10.1.2.3/", "--event", "*")
    assert private.code == 2 and "webhook_private_targets" in private.err
