"""tenant, user, key, grant and whoami on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graftwork.client import Client
from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from cli.conftest import Cli


def test_a_tenant_is_set_up_from_the_home_alone(cli: Cli) -> None:
    assert cli("whoami", "-o", "json").json()["name"] == "local"
    made = cli("tenant", "create", "acme", "--weight", "2", "--quota", "requests_per_minute=60", "-o", "json").json()
    assert (made["weight"], made["quotas"]["requests_per_minute"]) == (2.0, 60)
    changed = cli("tenant", "set", "acme", "--quota", "requests_per_minute=none", "-o", "json").json()
    assert (changed["weight"], changed["quotas"]["requests_per_minute"]) == (2.0, None)
    assert "acme" in cli("tenant", "list").out
    assert "deployer" in cli("user", "set", "ann", "--role", "deployer", "--tenant", "acme").out
    assert "ann" in cli("user", "list", "--tenant", "acme").out
    assert cli("tenant", "create", "acme").code == 1
    wrong = cli("tenant", "set", "acme", "--quota", "requests=3")
    assert (wrong.code, "requests_per_minute" in wrong.err) == (2, True)


def test_a_key_is_printed_alone_once_and_never_listed(cli: Cli) -> None:
    key = cli("key", "create", "--admin", "--name", "first").out.strip()
    assert key.startswith("gw_") and len(key.split()) == 1
    (listed,) = cli("key", "list", "-o", "json").json()
    assert (listed["name"], listed["role"], "key" in listed) == ("first", "admin", False)
    second = cli("key", "rotate", listed["id"], "--overlap", "0").out.strip()
    assert second.startswith("gw_") and second != key
    assert "revoked" in cli("key", "revoke", second.split("_")[1], "--reason", "over").out
    states = {row["state"] for row in cli("key", "list", "-o", "json").json()}
    assert states == {"expired", "revoked"}
    assert key.split("_", 2)[2] not in cli("audit", "log", "-o", "json").out


def test_a_key_and_a_tenant_say_what_a_request_means_that_names_nothing(cli: Cli) -> None:
    made = cli("key", "create", "--default-route", "tone", "-o", "json").json()
    assert made["default_route"] == "tone"
    assert "desk" in cli("key", "set", made["id"], "--default-route", "desk").out
    assert cli("key", "set", made["id"], "--default-route", "", "-o", "json").json()["default_route"] is None
    unsaid = cli("key", "set", made["id"])
    assert (unsaid.code, "--default-route" in unsaid.err) == (2, True)
    assert "tone" in cli("tenant", "create", "acme", "--default-route", "tone").out
    assert cli("tenant", "set", "acme", "--default-route", "", "-o", "json").json()["default_route"] is None
    assert cli("tenant", "set", "acme", "--default-route", "No Name").code == 1


def test_a_grant_is_given_listed_and_taken_back(cli: Cli) -> None:
    grant = cli("grant", "create", "acme", "tone-*", "--verb", "call", "--verb", "see", "-o", "json").json()
    assert "local/tone-*" in cli("grant", "list").out
    assert cli("grant", "list", "--received", "-o", "json").json() == []
    assert cli("grant", "rm", grant["id"]).code == 0
    assert cli("grant", "list", "-o", "json").json() == []


def test_a_key_of_the_environment_is_sent_to_a_server(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFTWORK_API_KEY", "gw_some")
    with Client("http://127.0.0.1:1") as client:
        assert client._wire._http.headers["authorization"] == "Bearer gw_some"
    with pytest.raises(InvalidRequest, match="API key"):
        Client("http://127.0.0.1:1", api_key="gw_a\nb")
    assert cli("whoami", "-o", "json").json()["name"] == "local"  # in this process nobody is asked for it
