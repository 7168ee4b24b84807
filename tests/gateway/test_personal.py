"""Personal adapters: whoever asks is known by a key or a trusted proxy, and has their own adapter or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from graftwork.settings import Settings
from support.served import CHAT, HELLO
from support.tenants import Town, settle, shared

ROUTE = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Route"}


@pytest.fixture
def town(settings: Settings, tmp_path: Path) -> Iterator[Town]:
    """`acme` has an adapter for ann and one for bob, of which only ann's is in production, behind one route."""
    with shared(settings.model_copy(update={"trusted_proxies": ("127.0.0.0/8",)}), tmp_path) as made:
        found = settle(made)
        for seed, user in enumerate(("ann", "bob"), 10):
            made.push(found.acme, f"user-{user}:1.0.0", seed=seed)
        acme = made.client(found.acme)
        acme.promote("user-ann:1.0.0")
        rules = [{"targets": [{"reference": "user-{user}@production"}]}]
        acme.routes.set({**ROUTE, "metadata": {"name": "personal"}, "spec": {"rules": rules}})
        yield found


def ask(town: Town, token: str, model: str = "personal", **headers: str) -> httpx.Response:
    body = {"model": model, "messages": HELLO, "session_id": "chat"}
    return town.shared.http(token, **headers).post(CHAT, json=body)


def test_a_user_is_known_by_their_key_or_as_a_trusted_proxy_says_and_a_key_s_own_user_comes_first(town: Town) -> None:
    for name in ("ann", "bob"):
        town.shared.tenancy.users.put("acme", name, "viewer", "", actor="me")
    ann, bob, program = (town.shared.key("acme", "viewer", user=one) for one in ("ann", "bob", None))
    assert ask(town, ann).json()["model"] == "user-ann:1.0.0"
    assert ask(town, program, **{"x-user-id": "ann"}).json()["model"] == "user-ann:1.0.0"
    assert ask(town, bob).status_code == 404, "his has no production version"
    town.shared.client(town.acme).promote("user-bob:1.0.0")
    assert ask(town, bob).json()["model"] == "user-bob:1.0.0"
    assert ask(town, bob, **{"x-user-id": "ann"}).json()["model"] == "user-bob:1.0.0", "his key says who he is"
    assert ask(town, program).status_code == 404, "nobody has said who asks"
    body = {"model": "personal", "messages": HELLO, "user": "ann"}
    assert town.shared.http(program).post(CHAT, json=body).status_code == 404, "and not whoever asks"


@pytest.mark.parametrize("user", ["Ann", "a@b.example", "ann/x", "..", "ann@production", "ann:1.0.0", "n" * 129])
def test_who_is_no_part_of_a_name_has_no_adapter_and_is_never_rewritten(town: Town, user: str) -> None:
    answer = ask(town, town.shared.key("acme", "viewer"), **{"x-user-id": user})
    assert answer.status_code in (400, 404)
    assert "user-ann" not in answer.text.replace(user, "")


def test_one_session_goes_from_work_to_personal_and_back_and_each_user_has_his_own(town: Town) -> None:
    town.shared.client(town.acme).promote("user-bob:1.0.0")
    program = town.shared.key("acme", "viewer")

    def turn(user: str, model: str) -> tuple[str, str]:
        answer = ask(town, program, model, **{"x-user-id": user})
        return answer.json()["model"], answer.headers["x-graftwork-session"]

    assert turn("ann", "tone") == ("tone:1.0.0", "began")
    assert turn("ann", "personal") == ("user-ann:1.0.0", "began")
    assert turn("bob", "personal") == ("user-bob:1.0.0", "began"), "the id of her session is none of his"
    assert turn("ann", "tone") == ("tone:1.0.0", "kept")
    assert turn("ann", "personal") == ("user-ann:1.0.0", "kept")
