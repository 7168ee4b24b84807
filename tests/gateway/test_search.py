"""The doors of search, tags and descriptions, and the verbs that speak to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from support.served import Served


def test_a_search_finds_pushed_versions_by_what_their_files_say(served: Served) -> None:
    served.push("tone", seed=1)
    served.push("tone", seed=2)
    served.client.promote("tone:1.0.0")
    found = served.client.searches.find("rank <= 16 and stage = production and has r and target_modules ~ proj")
    assert [(one["semver"], one["newest"], one["aliases"]) for one in found] == [("1.0.0", False, ["production"])]
    assert [one["semver"] for one in served.client.searches.find(sort="name", limit=1)] == ["1.0.0"]
    assert len(served.client.searches.find(text="tone")) == 2


def test_pages_lead_on_and_a_wrong_token_is_400(served: Served) -> None:
    for seed in (1, 2, 3):
        served.push("tone", seed=seed)
    page = served.http.get("/api/v1/search", params={"page_size": 2}).json()
    rest = served.http.get("/api/v1/search", params={"page_size": 2, "page_token": page["next_page_token"]}).json()
    assert [one["sequence"] for one in page["versions"] + rest["versions"]] == [3, 2, 1]
    assert rest["next_page_token"] is None
    other = {"filter": "rank > 0", "page_token": page["next_page_token"]}
    for params in (other, {"page_token": "x"}, {"page_size": 0}, {"filter": "rank = "}, {"sort": "x"}):
        answer = served.http.get("/api/v1/search", params=params)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request"), params


def test_a_mistake_travels_with_its_mark(served: Served) -> None:
    with pytest.raises(InvalidRequest, match="character 8") as raised:
        served.client.searches.find("rank = x")
    assert raised.value.message.endswith("\n  rank = x\n         ^")


def test_tags_and_descriptions_by_the_client(served: Served) -> None:
    served.push("tone", seed=1)
    tags = served.client.tags
    assert tags.set("tone", "region", "eu")["value"] == "eu"
    tags.set("tone:1.0.0", "build", "42")
    assert [tag["key"] for tag in tags.list("tone:1.0.0")] == ["build"]
    assert [tag["key"] for tag in tags.list("tone")] == ["region"]
    served.client.descriptions.set("tone", display_name="Tone", description="for letters")
    (line,) = served.client.adapters()
    assert (line["display_name"], line["description"]) == ("Tone", "for letters")
    (found,) = served.client.searches.find("tag.region = eu and tag.build > 41", text="letters")
    assert found["tags"] == {"region": "eu", "build": "42"}
    tags.remove("tone", "region")
    assert served.client.searches.find("tag.region = eu") == []
    wrong = served.http.put("/api/v1/adapters/tone/tags/a", json={"value": "x", "reference": "other:1.0.0"})
    assert wrong.status_code == 400 and json.loads(wrong.text)["field"] == "reference"
