"""Lists: adapters by name in pages, versions newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from support.desk import Desk


def test_an_empty_registry_lists_nothing(desk: Desk) -> None:
    page = desk.registry.list_adapters("local")
    assert (page.items, page.next_page_token) == ((), None)


def test_adapters_are_listed_with_newest_and_production(desk: Desk) -> None:
    desk.push(1, "b")
    desk.push(2, "b")
    desk.push(3, "a")
    desk.push(4, "c", tenant="acme")
    desk.promote("b:1.0.0")
    a, b = desk.registry.list_adapters("local").items
    assert (a.name, a.versions, a.newest.semver, a.production) == ("a", 1, "1.0.0", None)
    assert b.production is not None
    assert (b.name, b.versions, b.newest.semver, b.production.semver) == ("b", 2, "1.0.1", "1.0.0")
    assert b.production.aliases == ("production",)
    shown = b.to_json()["production"]
    assert shown["semver"] == "1.0.0"


def test_pages_together_are_the_list(desk: Desk) -> None:
    names = [f"a{number}" for number in range(5)]
    for number, name in enumerate(names):
        desk.push(number, name)
    seen: list[str] = []
    token: str | None = None
    for _ in range(3):
        page = desk.registry.list_adapters("local", page_size=2, page_token=token)
        seen += [item.name for item in page.items]
        token = page.next_page_token
    assert (seen, token) == (names, None)


def test_a_full_last_page_is_the_last(desk: Desk) -> None:
    desk.push(1, "a")
    assert desk.registry.list_adapters("local", page_size=1).next_page_token is None


@pytest.mark.parametrize("size", [0, -1, 1001])
def test_a_page_size_out_of_range_is_refused(desk: Desk, size: int) -> None:
    with pytest.raises(InvalidRequest, match="page_size"):
        desk.registry.list_adapters("local", page_size=size)


def test_a_made_up_page_token_is_refused(desk: Desk) -> None:
    with pytest.raises(InvalidRequest, match="page_token"):
        desk.registry.list_adapters("local", page_token="' OR 1=1")


def test_versions_are_listed_newest_first(desk: Desk) -> None:
    for content in (1, 2, 3):
        desk.push(content)
    assert [version.sequence for version in desk.registry.list_versions("local", "tone")] == [3, 2, 1]
