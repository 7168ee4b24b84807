"""Rollouts under load: two servers of one database, requests all the time, and how soon a rollback counts."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora
from support.databases import NewHome
from support.load import Load, listening
from support.rollouts import canary, document, hold, weight
from support.served import CHAT, HELLO
from support.waiting import eventually

pytestmark = pytest.mark.alone
TRIALS = 20


@pytest.fixture
def servers(database_url: str, new_home: NewHome, tmp_path: Path) -> Iterator[list[str]]:
    """Two of one database; three versions of one adapter are there, the first in production."""
    home = new_home(tmp_path / "home")
    settings = Settings(home=home, base="fake-base", base_name="fake-base", port=0, database_url=database_url)
    engines = [FakeEngine(), FakeEngine()]
    apps = [build_app(settings, engine=one, outline_of=lambda one=one: one.outline) for one in engines]  # type: ignore[misc]
    with listening(*apps) as urls, Client(urls[0]) as client:
        for number in (1, 2, 3):
            folder = write_lora(tmp_path / f"lora-{number}", engines[0].outline, seed=number)
            client.push(folder, f"support:{number}.0.0")
        client.promote("support:1.0.0")
        yield urls


def test_no_answer_fails_or_is_mixed_while_rollouts_come_go_and_are_taken_back(servers: list[str]) -> None:
    with Client(servers[1]) as client, Load(servers) as load:
        client.rollouts.start(document("support", canary(weight(20), hold("100ms"), weight(50), hold())))
        eventually(lambda: client.rollouts.show("support")["held"] == "step")
        count = len(load.answers)
        eventually(lambda: len(load.since(count)) == 2 and len(load.answers) > count + 50)
        client.rollouts.abort("support")
        client.rollouts.start(document("support", canary(weight(50), hold("100ms")), "support:3.0.0"))
        eventually(lambda: client.rollouts.show("support")["status"] == "promoted")
        count = len(load.answers)
        eventually(lambda: len(load.answers) > count + 50)
        client.rollback("support")
        eventually(lambda: load.answers[-1].json()["model"] == "support:1.0.0")
    arms = Counter[tuple[str, str]]()
    for answer in load.answers:
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["choices"][0]["message"]["content"] == f"{said['model']} says: hello big world"
        assert said["graftwork"]["version"] == answer.headers["x-graftwork-version"]
        arms[said["model"], said["graftwork"]["arm"]] += 1
    assert set(arms) == {
        ("support:1.0.0", "production"),
        ("support:1.0.0", "stable"),
        ("support:2.0.0", "candidate"),
        ("support:3.0.0", "candidate"),
        ("support:3.0.0", "production"),
    }


def test_a_rollback_and_an_abort_count_on_every_server_within_100_ms(servers: list[str]) -> None:
    with Client(servers[0]) as client, httpx.Client(base_url=servers[1]) as other:

        def until(model: str) -> float:
            """Seconds until the other server answers so."""
            began = time.perf_counter()
            while other.post(CHAT, json={"model": "support", "messages": HELLO}).json()["model"] != model:
                pass
            return time.perf_counter() - began

        rollbacks, aborts = [], []
        for _ in range(TRIALS):
            client.promote("support:2.0.0")
            until("support:2.0.0")
            client.rollback("support")
            rollbacks.append(until("support:1.0.0"))
        client.lifecycle.set_stage("support:2.0.0", "staging")  # a candidate again
        for _ in range(4):
            client.rollouts.start(document("support", canary(weight(100), hold())))
            until("support:2.0.0")
            client.rollouts.abort("support")
            aborts.append(until("support:1.0.0"))
    assert sorted(rollbacks)[TRIALS - 2] < 0.1, "the 95th percentile"
    assert sorted(aborts)[0] < 0.1
