"""Idempotency-Key on the doors that change something."""

from __future__ import annotations

import pytest

from graftwork.errors import Conflict
from graftwork.testing import write_lora
from support.served import Served

KEY = {"idempotency-key": "6c2f6f0e-0d1c-4a59-9d2c-0d6f2f4bdb1e"}


def test_a_push_with_the_same_key_and_body_is_answered_word_for_word(served: Served) -> None:
    version = served.push("alpha:1.0.0")
    body = {"manifest": version["manifest"], "version": "2.0.0", "metadata": {"labels": {"team": "blue"}}}
    door = "/api/v1/adapters/beta/versions"
    first = served.http.post(door, json=body, headers=KEY)
    served.client.promote("beta:2.0.0")
    again = served.http.post(door, json=dict(reversed(body.items())), headers=KEY)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert len(served.client.versions("beta")) == 1


def test_the_same_key_with_another_body_or_door_is_a_409(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:2.0.0", seed=2)
    promote = "/api/v1/adapters/alpha/promote"
    assert served.http.post(promote, json={"reference": "alpha:1.0.0"}, headers=KEY).status_code == 200
    assert served.http.post(promote, json={"reference": "alpha:2.0.0"}, headers=KEY).status_code == 409
    assert served.http.post("/api/v1/adapters/alpha/rollback", json={}, headers=KEY).status_code == 409
    assert served.client.show("alpha")["semver"] == "1.0.0"


def test_a_rollback_that_is_sent_again_goes_back_one_step(served: Served) -> None:
    for number in (1, 2, 3):
        served.push(f"alpha:{number}.0.0", seed=number)
        served.client.promote(f"alpha:{number}.0.0")
    for _ in range(3):
        assert served.client.rollback("alpha", idempotency_key="once")["semver"] == "2.0.0"
    assert served.client.rollback("alpha", idempotency_key="twice")["semver"] == "1.0.0"


def test_the_client_passes_keys_on(served: Served) -> None:
    folders = [write_lora(served.folder / f"k{seed}", served.engine.outline, seed=seed) for seed in (1, 2)]
    for _ in range(2):
        assert served.client.push(folders[0], "alpha", idempotency_key="a")["created"]
    with pytest.raises(Conflict, match="Idempotency-Key"):
        served.client.push(folders[1], "alpha", idempotency_key="a")


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é"])
def test_a_key_that_is_none_is_a_400(served: Served, key: str) -> None:
    served.push("alpha:1.0.0")
    headers = {"idempotency-key": key.encode()}
    answer = served.http.post(
        "/api/v1/adapters/alpha/promote",
        json={"reference": "alpha"},
        headers=headers,  # type: ignore[arg-type]
    )
    assert (answer.status_code, answer.json()["field"]) == (400, "Idempotency-Key")
