"""The verbs of webhooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.conftest import Cli

URL = "https://hooks.example/x"


def test_a_webhook_is_set_tested_listed_and_given_a_new_secret(cli: Cli) -> None:
    made = cli("webhook", "set", "ci", URL, "--event", "rollout.*", "--event", "alias.set", "--output", "json").json()
    assert made["secret"].startswith("whsec_")
    shown = cli("webhook", "list").out
    assert "rollout.*, alias.set" in shown and "whsec_" not in shown
    queued = cli("webhook", "test", "ci", "--wait", "0", "--output", "json").json()
    assert queued["status"] == "pending"
    assert queued["id"] in cli("webhook", "deliveries", "ci", "--status", "pending").out
    refused = cli("webhook", "retry", "ci", queued["id"])
    assert refused.code == 1 and "is pending" in refused.err
    assert "whsec_" in cli("webhook", "rotate", "ci", "--overlap", "60").out


def test_one_that_cannot_be_sent_to_is_a_wrong_use(cli: Cli) -> None:
    private = cli("webhook", "set", "ci", "https://10.1.2.3/", "--event", "*")
    assert private.code == 2 and "webhook_private_targets" in private.err
