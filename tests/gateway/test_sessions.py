"""Sessions over HTTP: a conversation keeps its version, says when it cannot, and is nobody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.errors import Unavailable
from graftwork.settings import Settings
from support.databases import NewHome
from support.rollouts import canary, document, hold, weight
from support.served import CHAT, HELLO, Served, serving
from support.tenants import settle, shared
from support.waiting import eventually

Start = Callable[..., Served]


@pytest.fixture
def start(database_url: str, new_home: NewHome, tmp_path: Path) -> Iterator[Start]:
    """Starts a server of one database; three versions of `support` are there, the first in production."""
    stack, home = ExitStack(), new_home(tmp_path / "home")

    def started(**changes: Any) -> Served:
        settings = Settings(
            home=home, base="fake-base", base_name="fake-base", port=0, database_url=database_url, **changes
        )
        return stack.enter_context(serving(settings, tmp_path))

    with stack:
        with serving(
            Settings(home=home, base="fake-base", base_name="fake-base", port=0, database_url=database_url), tmp_path
        ) as first:
            for number in (1, 2, 3):
                first.push(f"support:{number}.0.0", seed=number)
            first.client.promote("support:1.0.0")
        yield started


def ask(served: Served, session: str = "chat", **fields: Any) -> httpx.Response:
    return served.chat(**{"model": "support", "session_id": session, **fields})


def said(answer: httpx.Response) -> tuple[str, str]:
    """The version, and what became of the session."""
    assert answer.status_code == 200, answer.text
    return answer.json()["model"], answer.headers["x-graftwork-session"]


def rolled_out(served: Served, percent: float, *, to: str = "support:2.0.0") -> None:
    served.client.rollouts.start(document("support", canary(weight(percent), hold()), to))
    eventually(lambda: served.client.rollouts.show("support")["held"] == "step")


def on_canary(served: Served) -> str:
    """A session that the canary answers."""
    return next(name for name in map(str, range(200)) if said(ask(served, name))[0] == "support:2.0.0")


def test_a_session_keeps_its_version_while_weights_grow_on_both_servers_and_after_a_restart(start: Start) -> None:
    one, other = start(), start()
    names = [f"chat-{number}" for number in range(12)]
    assert {said(ask(one, name)) for name in names} == {("support:1.0.0", "began")}
    assert one.app.state.services.sessions.flush()
    rolled_out(one, 100)
    new = (f"new-{number}" for number in count())
    eventually(lambda: said(ask(other, next(new)))[0] == "support:2.0.0")
    served = one.client.rollouts
    served.abort("support")
    rolled_out(one, 90, to="support:3.0.0")
    for served_by in (other, one, start()):
        assert {said(ask(served_by, name)) for name in names} == {("support:1.0.0", "kept")}
    answer = ask(other, names[0]).json()["graftwork"]
    assert (answer["session"], answer["decision"]) == ({"state": "kept"}, "model:rollout:stable:session")


def test_an_abort_releases_the_session_at_its_next_turn_on_whichever_server_and_the_answer_says_so(
    start: Start,
) -> None:
    one, other = start(), start()
    rolled_out(one, 50)
    name = on_canary(one)
    assert one.app.state.services.sessions.flush()
    one.client.rollouts.abort("support")
    eventually(lambda: other.client.rollouts.show("support")["status"] == "aborted")
    answer = ask(other, name)
    assert said(answer) == ("support:1.0.0", "released; reason=aborted")
    told = answer.json()["graftwork"]
    assert told["session"]["reason"] == "aborted"
    assert told["session"]["before"] == one.client.show("support:2.0.0")["digest"]
    assert told["decision"] == "model:production:released:aborted"
    assert said(ask(other, name)) == ("support:1.0.0", "kept")
    assert other.app.state.services.sessions.flush()
    assert said(ask(one, name)) == ("support:1.0.0", "kept"), "this server had it in memory, and looked again"


def test_a_rollback_and_archiving_release_too(start: Start) -> None:
    served = start()
    served.client.promote("support:2.0.0")
    assert said(ask(served)) == ("support:2.0.0", "began")
    served.client.rollback("support")
    assert said(ask(served)) == ("support:1.0.0", "released; reason=moved")
    rolled_out(served, 50, to="support:3.0.0")
    name = next(one for one in map(str, range(200)) if said(ask(served, one))[0] == "support:3.0.0")
    served.client.lifecycle.set_stage("support:3.0.0", "archived")
    assert said(ask(served, name)) == ("support:1.0.0", "released; reason=archived")


def test_a_conversation_goes_from_one_adapter_to_another_and_back(start: Start) -> None:
    served = start()
    served.push("personal:1.0.0", seed=7)
    rolled_out(served, 50)
    name = on_canary(served)
    assert said(ask(served, name, model="personal")) == ("personal:1.0.0", "began")
    assert said(ask(served, name)) == ("support:2.0.0", "kept")
    assert said(ask(served, name, model="personal")) == ("personal:1.0.0", "kept")
    explicit = ask(served, name, adapter_id="support:3.0.0")
    assert explicit.json()["model"] == "support:3.0.0"
    assert "x-graftwork-session" not in explicit.headers
    assert said(ask(served, name)) == ("support:2.0.0", "kept"), "which asked nothing of the session"
    assert "session" not in served.chat(model="support").json()["graftwork"], "and who has none is told of none"


def test_a_session_says_what_it_is_at_every_door_and_in_streams(start: Start) -> None:
    served = start()
    for path in ("completions", "embeddings"):
        body = {"model": "support", "prompt": "a", "input": "a"}
        answer = served.http.post(f"/v1/{path}", json=body, headers={"X-Session-Id": path})
        assert said(answer) == ("support:1.0.0", "began")
    stream = served.events(model="support", session_id="completions")
    assert stream[-1]["graftwork"]["session"] == {"state": "kept"}
    record = served.client.predictions.explain(stream[-1]["graftwork"]["request"])["prediction"]
    assert (record["decision"], record["session_id"]) == ("model:production:session", "completions")


def test_whoever_is_forgotten_leaves_no_session(start: Start) -> None:
    served = start()
    rolled_out(served, 50)
    name = next(one for one in map(str, range(200)) if said(ask(served, one, user="ann"))[0] == "support:2.0.0")
    assert said(ask(served, name)) == ("support:2.0.0", "kept")
    served.client.predictions.forget("ann")
    assert said(ask(served, name))[1] == "began"


@pytest.mark.parametrize("user", ["a\0b", "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))])
def test_no_name_of_a_user_keeps_sessions_from_being_written(start: Start, user: str) -> None:
    one = start()
    assert said(ask(one, "odd", user=user)) == said(ask(one, "chat")) == ("support:1.0.0", "began")
    assert one.app.state.services.sessions.flush()
    other = start()
    assert said(ask(other, "odd")) == said(ask(other, "chat")) == ("support:1.0.0", "kept")
    other.client.predictions.forget(user[:256].replace("\0", "\ufffd"))
    assert said(ask(other, "odd"))[1] == "began"


def test_sessions_are_kept_by_nobody_where_the_server_says_so(start: Start) -> None:
    served = start(session_ttl_s=0)
    assert "x-graftwork-session" not in ask(served).headers
    assert "session" not in ask(served).json()["graftwork"]


def test_nobody_takes_another_s_session_by_its_id(settings: Settings, tmp_path: Path) -> None:
    with shared(settings, tmp_path) as made:
        town = settle(made)
        body = {"model": "tone", "messages": HELLO, "session_id": "chat"}

        def state(token: str, **headers: str) -> str:
            answer = made.http(token, **headers).post(CHAT, json=body)
            assert answer.status_code == 200, answer.text
            return answer.headers["x-graftwork-session"]

        assert state(town.acme) == "began"
        assert state(town.acme) == "kept"
        assert state(made.key("acme")) == "began", "another key"
        fresh = made.client(town.acme).keys.rotate(town.acme.split("_")[1])["key"]
        assert state(fresh) == "kept", "the key that took its place"
        made.tenancy.users.put("acme", "ann", "admin", "", actor="me")
        assert state(made.key("acme", user="ann")) == "began"
        assert state(made.key("acme", user="ann")) == "kept", "a user, by whichever key"


def test_who_cannot_be_forgotten_now_is_told_so(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is still being written would be there again after the deletion."""
    monkeypatch.setattr(served.app.state.services.sessions, "flush", lambda: False)
    with pytest.raises(Unavailable, match="still being written"):
        served.client.predictions.forget("ann")
