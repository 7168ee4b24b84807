"""Residency over HTTP: where each version stands, page by page, and what load, pin, unload and promotions do to it."""

from __future__ import annotations

import asyncio

import pytest

from graftwork.db import Database
from graftwork.errors import Conflict, InvalidRequest, Refused, UnknownModel
from graftwork.gateway import life
from graftwork.registry.registry import Registry
from support.served import Served


def test_each_version_is_listed_with_the_tiers_that_hold_it(served: Served) -> None:
    one = served.push("alpha:1.0.0", seed=1)
    two = served.push("alpha:2.0.0", seed=2)
    served.client.load("alpha:2.0.0")
    first, second = served.client.residency()
    assert (first["reference"], first["digest"], first["state"]) == ("alpha:1.0.0", one["digest"], "disk")
    assert first["tiers"].keys() == {"copy", "store"} and first["tiers"]["store"] == first["tiers"]["copy"] > 0
    assert (second["reference"], second["digest"], second["state"]) == ("alpha:2.0.0", two["digest"], "resident")
    assert second["tiers"]["memory"] == 1 and second["pinned"] is False and second["failure"] is None


def test_the_list_is_paged_and_bounded_and_can_be_asked_by_state(served: Served) -> None:
    for number in range(5):
        served.push(f"a{number}", seed=number)
    served.client.load("a3")
    pages, token = [], ""
    while True:
        page = served.http.get("/api/v1/residency", params={"page_size": 2, "page_token": token}).json()
        pages.append([one["adapter"] for one in page["adapters"]])
        if (token := page["next_page_token"]) is None:
            break
    assert pages == [["a0", "a1"], ["a2", "a3"], ["a4"]]
    assert [one["adapter"] for one in served.client.residency(state="resident")] == ["a3"]
    assert served.http.get("/api/v1/residency", params={"page_size": 10_000}).status_code == 400
    assert served.http.get("/api/v1/residency", params={"page_token": "x"}).status_code == 400
    assert served.http.get("/api/v1/residency", params={"state": "nowhere"}).status_code == 400


def test_a_load_answers_when_it_is_there_or_202_when_it_goes_on(served: Served) -> None:
    served.push("alpha:1.0.0")
    later = served.http.post("/api/v1/adapters/alpha/load", json={"wait_s": 0})
    assert later.status_code == 202 and later.headers["retry-after"] == "1"
    now = served.http.post("/api/v1/tenants/local/adapters/alpha/load")
    assert (now.status_code, now.json()["state"]) == (200, "resident")
    assert [handle.label for handle in served.engine.loaded] == ["alpha:1.0.0"] * 2


def test_what_is_pinned_is_not_unloaded_until_it_is_unpinned(served: Served) -> None:
    served.push("alpha:1.0.0")
    assert served.client.pin("alpha")["pinned"] is True
    with pytest.raises(Conflict, match="unpin it first"):
        served.client.unload("alpha")
    assert served.client.unpin("alpha")["pinned"] is False
    gone = served.client.unload("alpha")
    assert (gone["state"], "memory" in gone["tiers"]) == ("disk", False)


def test_a_name_that_is_unknown_or_not_the_paths_is_told(served: Served) -> None:
    served.push("alpha:1.0.0")
    for verb in (served.client.load, served.client.unload, served.client.pin, served.client.unpin):
        with pytest.raises(UnknownModel):
            verb("nope")
    served.push("beta:1.0.0", seed=1)
    named = served.http.post("/api/v1/adapters/alpha:1.0.0/load")
    assert named.status_code == 400 and "The reference 'alpha:1.0.0' is not of" in named.json()["detail"]
    wrong = served.http.post("/api/v1/adapters/alpha/load", json={"reference": "beta"})
    assert wrong.status_code == 400 and wrong.json()["field"] == "reference"
    with pytest.raises(InvalidRequest):
        served.client.unload("alpha", wait_s=-1)


def test_a_load_that_fails_says_why(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.engine.failures["alpha:1.0.0"] = Refused("It cannot be served.")
    with pytest.raises(Refused, match="cannot be served"):
        served.client.load("alpha")


def test_a_push_of_the_same_bytes_lets_the_next_request_try_again(served: Served) -> None:
    digest = served.push("alpha:1.0.0")["digest"]
    served.push("alpha:1.0.0")
    assert served.engine.retried == [digest] * 2


def test_where_a_name_moves_the_engine_is_told_from_what_to_what(served: Served) -> None:
    one, two = (served.push(f"alpha:{n}.0.0", seed=n)["digest"] for n in (1, 2))
    here = served.app.state.services
    with Database(here.settings.database) as database:
        elsewhere = Registry(database)  # another process: the command line, or another server
        for move in (
            lambda: served.client.promote("alpha:1.0.0"),
            lambda: served.client.promote("alpha:2.0.0"),
            lambda: served.client.rollback("alpha"),
            lambda: elsewhere.promote("local", "alpha:2.0.0", actor="other"),
            lambda: served.client.set_alias("alpha", "champion", "alpha:2.0.0"),
            lambda: elsewhere.set_alias("local", "alpha", "champion", "alpha:1.0.0", actor="other"),
        ):
            move()
            here.snapshots.current()
    moves = [(before, after.digest) for before, after in served.engine.anticipated]
    assert moves == [(one, two), (two, one), (one, two), (two, one)]


def test_a_move_is_seen_though_nobody_asks(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    here = served.app.state.services
    for number in (1, 2):
        served.push(f"alpha:{number}.0.0", seed=number)
    served.client.promote("alpha:1.0.0")
    here.snapshots.current()
    with Database(here.settings.database) as database:
        Registry(database).promote("local", "alpha:2.0.0", actor="other")
    monkeypatch.setattr(life, "LOOK_S", 0.005)

    async def look() -> None:
        looking = asyncio.create_task(life._look(here.snapshots))
        while not served.engine.anticipated:
            await asyncio.sleep(0.001)
        looking.cancel()

    asyncio.run(asyncio.wait_for(look(), 20))


def test_metrics_of_tiers_and_outcomes_have_few_labels(served: Served) -> None:
    from graftwork.telemetry import Telemetry

    telemetry = Telemetry()
    telemetry.watch_engine(
        lambda: {"adapter_tier_bytes": {"memory": 5, "copy": 7}, "adapter_load_outcomes": {"form": 1}}
    )
    page = telemetry.render()[0].decode()
    assert 'graftwork_engine_adapter_tier_bytes{tier="memory"} 5.0' in page
    assert 'graftwork_engine_adapter_load_outcomes_total{outcome="form"} 1.0' in page
