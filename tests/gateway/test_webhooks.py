"""Webhooks through their doors: what happens is told to a real receiver, by one of several servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook as Reader

from graftwork.db import Database
from graftwork.db.lease import Lease
from graftwork.errors import InvalidRequest, NotFound
from graftwork.gateway.delivering import Delivering, delivered
from graftwork.registry.webhooks.deliveries import Deliveries
from graftwork.registry.webhooks.secrets import Secrets
from graftwork.settings import Settings
from support.receiver import Receiver, receiving
from support.served import Served, serving

HOOKS = "/api/v1/webhooks"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def served(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server whose webhooks may be private, and that leaves sending to another one."""
    monkeypatch.setattr("graftwork.gateway.delivering.LOOK_S", 3600.0)
    with serving(settings.model_copy(update={"webhook_private_targets": True}), tmp_path) as made:
        yield made


def look(delivering: Delivering, times: int = 1) -> None:
    """What its loop would do so often."""

    async def looked() -> None:
        for _ in range(times):
            await delivering.look()
            await delivering.settled()

    asyncio.run(looked())


@pytest.fixture
def delivering(served: Served) -> Iterator[Delivering]:
    """Another server of the same database, that sends when a test says so."""
    settings: Settings = served.app.state.services.settings
    with Database(settings.database) as database:
        told: list[str] = []
        made = delivered(settings, database, lambda: 0, told.append)[1]
        yield made
        asyncio.run(made.close())


def test_what_happens_is_sent_signed_in_order(served: Served, receiver: Receiver, delivering: Delivering) -> None:
    secret = served.client.webhooks.set("ci", receiver.url, ["version.*", "alias.*"], subjects=["adapters/alpha"])[
        "secret"
    ]
    served.push("alpha:1.0.0")
    served.push("beta:1.0.0", seed=1)
    served.client.promote("alpha:1.0.0", reason="good")
    look(delivering)
    log = [one for one in served.client.history("alpha") if one["kind"].startswith(("version.", "alias."))]
    said = [Reader(secret).verify(got.body, got.headers) for got in receiver.got]
    assert [one["data"] for one in said] == log and len(log) >= 2
    found = served.client.webhooks.deliveries("ci")
    assert [(one["kind"], one["status"], one["answered"], one["attempts"]) for one in reversed(found)] == [
        (one["kind"], "delivered", 204, 1) for one in log
    ]
    look(delivering)
    assert len(receiver.got) == len(log)


def test_a_test_goes_the_same_way_and_what_failed_is_sent_again_under_its_id(
    served: Served, receiver: Receiver, delivering: Delivering
) -> None:
    hooks = served.client.webhooks
    hooks.set("ci", receiver.url, ["rollout.*"])
    receiver.answers = [(400, {}), (204, {})]
    queued = hooks.test("ci")
    assert (queued["kind"], queued["status"], queued["position"]) == ("webhook.test", "pending", None)
    look(delivering)
    [failed] = hooks.deliveries("ci", status="failed")
    assert (failed["id"], failed["answered"], failed["error"]) == (queued["id"], 400, "answered 400")
    assert hooks.retry("ci", queued["id"]) == 1
    look(delivering)
    assert hooks.deliveries("ci")[0]["status"] == "delivered"
    assert {got.headers["webhook-id"] for got in receiver.got} == {queued["id"]} and len(receiver.got) == 2


def test_who_does_not_answer_holds_up_nobody_else(served: Served, receiver: Receiver, delivering: Delivering) -> None:
    with receiving() as gone:
        served.client.webhooks.set("gone", gone.url, ["version.*"])
    served.client.webhooks.set("here", receiver.url, ["version.*"])
    served.push("alpha:1.0.0")
    look(delivering)
    assert receiver.got and served.client.webhooks.deliveries("gone")[0]["error"] == "the host cannot be reached"
    assert {one["status"] for one in served.client.webhooks.deliveries("here")} == {"delivered"}


def test_a_server_that_died_before_it_wrote_it_down_leaves_it_to_another_under_the_same_id(
    served: Served, receiver: Receiver, delivering: Delivering
) -> None:
    served.client.webhooks.set("ci", receiver.url, ["version.*"])
    served.push("alpha:1.0.0")
    settings: Settings = served.app.state.services.settings
    with Database(settings.database) as database:
        lease = Lease(database, "webhooks", "dead", ttl_s=0.3)
        held, dead = lease.hold(), Deliveries(database, Secrets())
        assert held is not None
        start = dead.start()
        assert start is not None
        dead.queue(start, held)
        [place] = dead.places()
        message = dead.next_of(place)
        assert message is not None  # it sent that, and was killed
        look(delivering)
        assert receiver.got == []  # the lease is still its
        while receiver.got == []:
            look(delivering)
        assert receiver.got[0].headers["webhook-id"] == message.delivery.id
        assert served.client.webhooks.deliveries("ci")[-1]["status"] == "delivered"


def test_the_secret_is_shown_once_and_new_ones_by_rotation(served: Served, receiver: Receiver) -> None:
    body = {"url": receiver.url, "events": ["*"]}
    made = served.http.put(f"{HOOKS}/ci", json=body)
    assert (made.status_code, made.headers["cache-control"], made.headers["location"]) == (
        201,
        "no-store",
        f"{HOOKS}/ci",
    )
    assert made.json()["secret"].startswith("whsec_")
    again = served.http.put(f"{HOOKS}/ci", json=body)
    assert again.status_code == 200 and "secret" not in again.json()
    shown = served.http.get(f"{HOOKS}/ci")
    assert "secret" not in shown.json() and shown.headers["etag"] == again.headers["etag"] == made.headers["etag"]
    rotated = served.client.webhooks.rotate("ci", overlap_s=60)
    assert rotated["secret"] not in ("", made.json()["secret"]) and rotated["previous_until"]
    assert "whsec_" not in str(served.client.webhooks.list())
    stale = served.http.delete(f"{HOOKS}/ci", headers={"if-match": made.headers["etag"]})
    assert stale.status_code == 412
    served.client.webhooks.remove("ci")
    with pytest.raises(NotFound):
        served.client.webhooks.show("ci")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": "http://hooks.example/", "events": ["*"], "more": 1}, "more"),
        ({"url": "ftp://hooks.example/", "events": ["*"]}, "url"),
        ({"url": "https://hooks.example/", "events": []}, "events"),
        ({"url": "https://hooks.example/", "events": ["version"]}, "events.0"),
        ({"url": "https://hooks.example/", "events": ["*"], "subjects": ["a*b"]}, "subjects.0"),
    ],
)
def test_what_cannot_be_meant_is_a_400_that_says_where(served: Served, body: dict[str, object], field: str) -> None:
    answer = served.http.put(f"{HOOKS}/ci", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


def test_private_targets_are_refused_unless_the_server_allows_them(settings: Settings, tmp_path: Path) -> None:
    with serving(settings, tmp_path) as served:
        for url in ("http://127.0.0.1:9/", "https://10.1.2.3/", "https://[::ffff:7f00:1]/"):
            with pytest.raises(InvalidRequest):
                served.client.webhooks.set("ci", url, ["*"])
