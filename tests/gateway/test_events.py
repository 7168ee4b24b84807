"""The event log over HTTP and through the client: listed, followed, verified, exported."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from graftwork.access.clock import timestamp, utc_now
from graftwork.access.event_file import verify_file
from graftwork.access.events import append
from graftwork.client import Client
from graftwork.client import events as client_events
from graftwork.db import Database
from graftwork.errors import Conflict, Damaged, InvalidRequest, NotFound, Unavailable
from graftwork.gateway import events as doors
from graftwork.protocol.resource import API_VERSION
from graftwork.settings import Settings
from support.evaluations import task
from support.keys import KEYS
from support.served import Served, serving
from support.tenants import shared

SUBJECTS = ("adapters/alpha", "retention", "gc")
KINDS = ["base.created", "adapter.created", "version.created", "version.promoted"]


@pytest.fixture
def busy(served: Served) -> Served:
    """One version, promoted."""
    served.push("alpha")
    served.client.promote("alpha:1.0.0", reason="first")
    return served


def database_of(served: Served) -> Database:
    return Database(served.app.state.services.settings.database)


def test_events_are_listed_with_who_what_why_and_for_which_request(busy: Served) -> None:
    found = busy.client.events.list()
    assert [event["kind"] for event in found] == KINDS
    answer = busy.http.post("/api/v1/adapters/alpha/promote", json={"reference": "alpha:1.0.0"})
    assert answer.status_code == 200 and busy.client.events.list() == found  # nothing changed, so nothing happened
    moved = busy.http.put("/api/v1/adapters/alpha/aliases/champion", json={"target": "alpha:1.0.0"})
    [event] = busy.client.events.list(after=4)
    assert event["payload"]["request_id"] == moved.headers["x-graftwork-request"]
    assert found[-1]["payload"]["reason"] == "first" and found[-1]["actor"] == "local"


def test_events_come_page_by_page_and_by_filter(busy: Served) -> None:
    first = busy.http.get("/api/v1/events", params={"page_size": 3}).json()
    rest = busy.http.get("/api/v1/events", params={"page_size": 3, "page_token": first["next_page_token"]}).json()
    assert [event["kind"] for event in first["events"] + rest["events"]] == KINDS
    assert rest["next_page_token"] is None
    assert [event["position"] for event in busy.client.events.list(kind="version.created")] == [3]
    assert [event["position"] for event in busy.client.events.list(subject="bases/fake-base")] == [1]
    assert busy.client.events.list(until="2000-01-01T00:00:00+02:00") == busy.client.events.list(actor="you") == []
    assert len(busy.client.events.list(since="2000-01-01T00:00:00+02:00")) == 4


def test_a_filter_that_nothing_can_fit_is_refused_with_what_may_be_meant(busy: Served) -> None:
    with pytest.raises(
        InvalidRequest, match=r"'version\.promted'\. Did you mean version\.promoted\? There are adapter\."
    ):
        busy.client.events.list(kind="version.promted")
    assert busy.http.get("/api/v1/events", params={"kind": "x", "follow": "true"}).status_code == 400
    for subject in ("foo", "adapters/nosuch"):
        with pytest.raises(NotFound, match=f"No event is about '{subject}'. A subject is adapters/NAME"):
            busy.client.events.list(subject=subject)
    assert busy.client.events.list(subject="adapters/alpha", kind="hold.set") == []


def test_whatever_changes_is_told_under_its_subject(busy: Served) -> None:
    client, folder = busy.client, busy.folder / "lora-0"
    busy.push("alpha", seed=1)
    client.tags.set("alpha:1.0.0", "team", "red")
    client.descriptions.set("alpha", description="finds irony")
    client.evaluations.add("alpha:1.0.0", task())
    client.documents.add("alpha:1.0.0", folder / "adapter_config.json", kind="other")
    client.signatures.sign("alpha:1.0.0", KEYS["ed25519"].private)
    client.lineage.add("alpha:1.0.0", "trained_on", "dataset:texts")
    client.holds.set("alpha:1.0.1", reason="court")
    client.holds.release("alpha:1.0.1", reason="over")
    client.retention.set_rules(
        {"apiVersion": API_VERSION, "kind": "Retention", "metadata": {}, "spec": {"keepLast": 9}}
    )
    client.retention.delete("alpha:1.0.1", reason="gone")
    client.retention.gc(older_than_s=0)
    told = {subject: [event["kind"] for event in client.events.list(subject=subject, after=4)] for subject in SUBJECTS}
    assert told == {
        "adapters/alpha": [
            *("version.created", "tag.set", "adapter.described", "evaluation.added", "document.added"),
            *("signature.added", "lineage.added", "hold.set", "hold.released", "version.deleted"),
        ],
        "retention": ["retention.set"],
        "gc": ["gc.began", "gc.ended"],
    }
    assert sum(map(len, told.values())) == len(client.events.list(after=4)) == client.events.verify()["events"] - 4
    assert client.events.list(kind="version.deleted")[0]["payload"]["reason"] == "gone"


@pytest.mark.parametrize(
    "params",
    [
        {"since": "yesterday"},
        {"until": "2026-01-31T09:30:00"},
        {"kind": "a\0b"},
        {"page_token": "x"},
        {"page_token": "9" * 20},
    ],
)
def test_what_cannot_be_read_is_said_by_field(served: Served, params: dict[str, str]) -> None:
    answer = served.http.get("/api/v1/events", params=params)
    assert answer.status_code == 400 and answer.json()["field"] in params


def test_another_tenants_events_are_not_told(busy: Served) -> None:
    with database_of(busy) as database, database.transaction() as tx:
        append(tx, "other", "someone", "secret.made", "secrets/1", {"x": 1}, at="2026-01-31T09:30:00.000000Z")
    said = json.dumps([busy.client.events.list(), busy.http.get("/api/v1/audit/chain").json()])
    assert "secret" not in said and "someone" not in said
    assert busy.client.events.head()["events"] == busy.client.events.verify()["events"] == 5


def test_following_tells_what_was_and_then_what_comes(busy: Served, tmp_path: Path) -> None:
    following = busy.client.events.follow(after=2)
    assert [event["kind"] for event in islice(following, 2)] == KINDS[2:]
    with serving(busy.app.state.services.settings, tmp_path) as other:  # as another process would
        moved = other.client.set_alias("alpha", "champion", "alpha:1.0.0")
    event = next(following)
    assert (event["position"], event["kind"]) == (5, "alias.set") and moved["aliases"] == ["champion", "production"]
    following.close()


def test_a_follower_that_filters_is_not_told_the_same_again(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "AT_ONCE", 1)
    following = busy.client.events.follow(kind="version.promoted")
    assert next(following)["position"] == 4
    busy.push("alpha", seed=1)
    busy.client.promote("alpha:1.0.1")
    assert next(following)["position"] == 6
    following.close()


def stream_of(served: Served, **headers: str) -> Any:
    return served.http.stream("GET", "/api/v1/events", params={"follow": "true"}, headers=headers)


def test_a_browser_goes_on_after_the_last_event_it_saw(busy: Served) -> None:
    with stream_of(busy, **{"last-event-id": "3"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = list(islice(answer.iter_lines(), 4))
    assert lines[:3] == ["retry: 1000", "", "id: 4"]
    assert json.loads(lines[3].removeprefix("data: "))["kind"] == "version.promoted"
    with stream_of(busy, **{"last-event-id": "x"}) as answer:
        assert answer.status_code == 400


def test_silence_is_broken_by_comments(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(doors, "LOOK_S", 0.01)
    with stream_of(served) as answer:
        assert list(islice(answer.iter_lines(), 5)) == ["retry: 1000", "", ":", "", ":"]


def test_a_stream_ends_when_the_server_stops(busy: Served) -> None:
    with stream_of(busy) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        busy.app.state.services.engine.closing = True
        assert sum(line.startswith("id: ") for line in lines) == 4  # what is being told is told


@pytest.mark.parametrize("ending", ["revoked", "expired", "struck off", "demoted"])
def test_a_stream_ends_with_the_key_that_it_was_opened_with(
    settings: Settings, tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "LOOK_S", 0.01)
    with shared(settings, tmp_path) as made:
        tenancy = made.tenancy
        tenancy.users.put("acme", "ann", "admin", "", actor="me")
        soon = timestamp(utc_now() + timedelta(seconds=1)) if ending == "expired" else None
        key = made.key("acme", user="ann", expires_at=soon)
        with made.http(key).stream("GET", "/api/v1/events", params={"follow": "true"}) as answer:
            lines = answer.iter_lines()
            assert next(lines) == "retry: 1000"
            if ending == "revoked":
                tenancy.keys.revoke("acme", key.split("_")[1], actor="me")
            elif ending == "struck off":
                tenancy.users.remove("acme", "ann", actor="me")
            elif ending == "demoted":
                tenancy.users.put("acme", "ann", "viewer", "", actor="me")
            told = [line for line in lines if line]
        assert told[-2] == "event: error"
        assert json.loads(told[-1].removeprefix("data: "))["status"] == 401
        assert "key.revoked" not in str(told), "what came after it is not told any more"


def test_who_reads_slowly_is_read_for_slowly(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    page = busy.app.state.services.events.page
    monkeypatch.setattr(doors, "AT_ONCE", 1)

    def counted(*args: Any) -> Any:
        reads.append(1)
        return page(*args)

    monkeypatch.setattr(busy.app.state.services.events, "page", counted)
    with database_of(busy) as database, database.transaction() as tx:
        for _ in range(30):
            append(tx, "local", "me", "thing.made", "things/1", {}, at="2026-01-31T09:30:00.000000Z")
    with stream_of(busy) as answer:
        next(answer.iter_lines())
        assert len(reads) < 10


def test_a_follower_is_told_when_the_log_cannot_be_read(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_args: object) -> None:
        raise Unavailable("The database is away.")

    monkeypatch.setattr(client_events, "PAUSES_S", (0.0,))
    monkeypatch.setattr(busy.app.state.services.events, "page", away)
    with pytest.raises(Unavailable, match="database is away"):
        next(busy.client.events.follow())


def test_following_goes_on_where_a_connection_broke(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_events, "PAUSES_S", (0.0,))
    services = busy.app.state.services
    following = busy.client.events.follow()
    assert next(following)["position"] == 1
    services.engine.closing = True
    threading.Timer(0.3, lambda: setattr(services.engine, "closing", False)).start()
    monkeypatch.setattr(client_events, "PAUSES_S", (0.5,))
    assert [event["position"] for event in islice(following, 3)] == [2, 3, 4]
    following.close()


def test_damage_is_told_by_position_and_is_never_exported(busy: Served, tmp_path: Path) -> None:
    noted = busy.client.events.head()["head"]
    assert busy.client.events.verify(expected_head=noted)["ok"]
    assert not busy.client.events.verify(expected_head="sha256:" + "0" * 63 + "1")["ok"]
    with database_of(busy) as database, database.transaction() as tx:
        tx.execute(text("DROP TRIGGER events_no_update"))
        tx.execute(text("UPDATE events SET actor = 'you' WHERE position = 2"))
    found = busy.client.events.verify()
    assert (found["ok"], found["events"]) == (False, 1) and "position 2" in found["problem"]
    with pytest.raises(Damaged, match="position 2"):
        busy.client.events.export(tmp_path / "log.jsonl")
    assert not list(tmp_path.glob("*log.jsonl*"))


def test_a_malformed_head_is_the_callers_mistake(served: Served) -> None:
    with pytest.raises(InvalidRequest, match="expected_head"):
        served.client.events.verify(expected_head="abc")


def test_an_export_is_the_whole_chain(busy: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_events, "_PAGE", 3)
    file = tmp_path / "log.jsonl"
    found = busy.client.events.export(file)
    assert found == busy.client.events.verify()
    assert verify_file(file, busy.client.events.head()["head"]).problem is None
    with pytest.raises(Conflict, match="already"):
        busy.client.events.export(file)
    assert isinstance(busy.client, Client)
