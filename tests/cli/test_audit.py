"""`graftwork audit`, on a home without a server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.conftest import Cli
from graftwork.adapters.outline import Outline
from graftwork.client.events import Events
from graftwork.testing import write_lora


@pytest.fixture
def pushed(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    assert cli("push", str(write_lora(tmp_path / "a", outline)), "tone").code == 0
    return cli


def test_the_log_tells_who_did_what(pushed: Cli) -> None:
    printed = pushed("audit", "log").out
    assert "version.created" in printed and "adapters/tone" in printed
    [event] = pushed("audit", "log", "--kind", "version.created", "--output", "json").json()
    assert event["payload"]["request_id"] in printed


def test_the_log_can_be_followed_until_ctrl_c(pushed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    follow = Events.follow

    def interrupted(self: Events, *, after: int, **filters: str | None) -> Generator[dict[str, object], None, None]:
        following = follow(self, after=after, **filters)
        yield from (next(following) for _ in range(2))
        following.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Events, "follow", interrupted)
    ran = pushed("audit", "log", "--follow", "--after", "1", "--output", "json")
    assert ran.code == 0
    assert [json.loads(line)["position"] for line in ran.out.splitlines()] == [2, 3]


def test_verify_says_how_many_events_hold_and_where_it_breaks(pushed: Cli, tmp_path: Path) -> None:
    head = pushed("audit", "head", "--output", "json").json()
    assert pushed("audit", "verify", "--expected-head", head["head"], "--output", "json").json()["events"] == 3
    exported = tmp_path / "log.jsonl"
    assert pushed("audit", "export", str(exported)).code == 0
    with sqlite3.connect(tmp_path / "home" / "graftwork.db") as database:
        database.execute("DROP TRIGGER events_no_delete")
        database.execute("DELETE FROM events WHERE position = 3")
    database.close()
    cut = pushed("audit", "verify", "--expected-head", head["head"])
    assert cut.code == 1 and "cut off" in cut.out
    assert pushed("audit", "verify").code == 0  # nobody can tell, but for who noted the head
    assert pushed("audit", "verify", "--file", str(exported), "--expected-head", head["head"]).code == 0
    for wrong in (("--file", str(exported)), ()):  # which is no sign of a cut
        ran = pushed("audit", "verify", *wrong, "--expected-head", "sha256:00")
        assert (ran.code, ran.out) == (2, "") and "64" in ran.err
    exported.write_text(exported.read_text().replace("version.created", "version.crested"))
    broken = pushed("audit", "verify", "--file", str(exported))
    assert broken.code == 1 and "position 3" in broken.out
    assert pushed("audit", "verify", "--file", str(tmp_path / "none")).code == 1
