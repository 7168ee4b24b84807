"""A canary of one user in five: the same users each time, and taken back by what its good-looking answers say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from graftwork.errors import InvalidRequest
from graftwork.settings import Settings
from support.analysis import template
from support.rollouts import canary, document, hold, weight
from support.served import CHAT, HELLO, Served, serving
from support.waiting import eventually

USERS = [f"user-{number}" for number in range(2000)]
#: Also of a candidate that answers nothing, every status is 200.
GATE = {"name": "empty", "provider": {"rate": {"measure": "empty_rate"}}, "failureCondition": "result - stable > 0.1"}


def who_answers(served: Served, key: str, users: Sequence[str]) -> list[str]:
    """The version that answers each user, as a proxy that we trust names them."""

    async def ask_all() -> list[str]:
        transport = httpx.ASGITransport(served.app, client=("10.1.2.3", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            http.headers["authorization"] = f"Bearer {key}"
            body, found = {"model": "tone", "messages": HELLO}, []
            for user in users:
                answer = await http.post(CHAT, json=body, headers={"X-User-Id": user})
                assert answer.status_code == 200, answer.text
                found.append(answer.json()["graftwork"]["version"])
            return found

    return asyncio.run(ask_all())


def test_users_keep_their_version_until_its_empty_answers_take_it_back(settings: Settings, tmp_path: Path) -> None:
    trusting = settings.model_copy(update={"trusted_proxies": ("10.0.0.0/8",)})
    with serving(trusting, tmp_path) as served:
        for number in (1, 2):
            served.push(f"tone:{number}.0.0", seed=number)
        served.client.promote("tone:1.0.0")
        served.engine.answers_of["tone:2.0.0"] = ""
        services, key = served.app.state.services, served.client.keys.create()["key"]
        served.client.analyses.set(template(GATE))
        plan = canary(weight(20), hold(), analysis={"name": "careful"})
        with pytest.raises(InvalidRequest, match="stepWeights is not a field"):
            served.client.rollouts.start(document("tone", {"canary": {**plan["canary"], "stepWeights": [20]}}))
        served.client.rollouts.start(document("tone", plan))
        asyncio.run(services.steering.look())
        assert served.client.rollouts.show("tone")["held"] == "step"

        first = who_answers(served, key, USERS)
        assert abs(Counter(first)["2.0.0"] / len(USERS) - 0.2) < 0.03
        assert who_answers(served, key, USERS[:200]) == first[:200], "the same user, the same version"

        asyncio.run(services.books.recorder.flush())

        def over() -> bool:
            """The slower the look before was, the longer the next one rests."""
            asyncio.run(services.steering.look())
            return bool(served.client.rollouts.show("tone")["status"] == "aborted")

        eventually(over)
        ended = served.client.rollouts.show("tone")
        assert (ended["status"], "empty: " in ended["reason"]) == ("aborted", True), ended["reason"]
        assert set(who_answers(served, key, USERS[:200])) == {"1.0.0"}
        served.client.promote("tone:2.0.0")
        served.client.rollback("tone")
        assert set(who_answers(served, key, USERS[:20])) == {"1.0.0"}
