"""Which rule a request meets, and why: each thing that rules look at, alone and by the thousand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import Unavailable
from graftwork.protocol.routes import RouteSpec, Window
from graftwork.traffic.resources.resource import Revision
from graftwork.traffic.routes.circumstances import UNKNOWN, Circumstances
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.week import Week

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)  # a Saturday


def route(*rules: dict[str, Any], name: str = "support") -> Route:
    spec = RouteSpec.model_validate({"rules": list(rules)})
    return Route("local", name, Revision(1, "sha256:" + "1" * 64, "2026-01-01T00:00:00.000000Z", "local", None), spec)


def rule(name: str, *matches: dict[str, Any], reference: str = "tone", **fields: Any) -> dict[str, Any]:
    return {"name": name, "matches": list(matches), "targets": [{"reference": reference}], **fields}


def met(match: dict[str, Any], **seen: Any) -> bool:
    """Whether circumstances fit one match."""
    return route(rule("it", match), rule("other")).ruling(Circumstances(**{"now": NOW, **seen})).rule == "it"


@pytest.mark.parametrize("field", ["task", "tenant", "user", "key", "session", "region"])
def test_a_literal_is_one_of_its_values(field: str) -> None:
    assert met({field: ["a", "b"]}, **{field: "b"})
    assert met({field: "a"}, **{field: "a"})
    assert not met({field: "a"}, **{field: "A"})
    assert not met({field: "a"})


def test_all_of_a_match_and_any_of_the_matches_must_fit() -> None:
    found = route(rule("it", {"task": "a", "user": "ann"}, {"region": "eu"}), rule("other"))
    both = replace(UNKNOWN, task="a", user="ann")
    assert found.ruling(both).rule == "it"
    assert found.ruling(replace(both, user="bob")).rule == "other"
    assert found.ruling(replace(UNKNOWN, region="eu")).rule == "it"


@pytest.mark.parametrize(
    ("condition", "fitting", "not_fitting"),
    [
        ({"exact": ["gold", "silver"]}, ["gold", "silver"], ["Gold", "golden", None]),
        ({"prefix": "gold"}, ["gold", "golden"], ["old gold", "gol", None]),
        ({"regex": "^(a+)+$"}, ["a" * 1024], ["a" * 1023 + "b", "a" * 1025, None]),
        ({"regex": "ld"}, ["golden"], ["gode"]),
        ({"present": True}, ["", "x"], [None]),
        ({"present": False}, [None], ["", "x"]),
    ],
)
def test_a_header_is_what_is_asked_of_it(condition: dict[str, Any], fitting: list[Any], not_fitting: list[Any]) -> None:
    match = {"headers": [{"name": "X-Plan", **condition}]}
    for values, fits in ((fitting, True), (not_fitting, False)):
        for value in values:
            assert met(match, headers={} if value is None else {"x-plan": value}) is fits, value


@pytest.mark.parametrize(
    ("tag", "ranges", "fits"),
    [
        ("de", ("de-ch",), True),
        ("de-CH", ("de-ch-1996",), True),
        ("de-CH", ("de",), False),
        ("zh-Hant", ("zh-hant-x-a",), True),
        ("en", ("*", "en"), True),
        ("en", ("fr", "en-us"), True),
        ("en", ("fr",), False),
        ("en", (), False),
    ],
)
def test_a_locale_is_looked_up_as_rfc_4647_says(tag: str, ranges: tuple[str, ...], fits: bool) -> None:
    assert met({"locale": tag}, locales=ranges) is fits


def test_the_most_wanted_of_a_route_s_languages_decides_whatever_the_order_of_its_rules() -> None:
    found = route(rule("german", {"locale": "de"}), rule("french", {"locale": "fr"}), rule("other"))
    assert found.ruling(replace(UNKNOWN, locales=("fr", "de"))).rule == "french"
    assert found.ruling(replace(UNKNOWN, locales=("da", "de"))).rule == "german"
    assert found.ruling(replace(UNKNOWN, locales=("da",))).rule == "other"


@pytest.mark.parametrize(
    ("window", "moment", "fits"),
    [
        ({"zone": "UTC", "days": ["sat"], "from": "12:00", "to": "12:01"}, "2026-01-31T12:00:59", True),
        ({"zone": "UTC", "days": ["sat"], "from": "12:00", "to": "12:01"}, "2026-01-31T12:01:00", False),
        ({"zone": "Asia/Tokyo", "days": ["sun"], "to": "01:00"}, "2026-01-31T15:30:00", True),
        ({"zone": "UTC", "days": ["sun"], "from": "22:00", "to": "06:00"}, "2026-02-02T05:59:00", True),
        ({"zone": "UTC", "days": ["sun"], "from": "22:00", "to": "06:00"}, "2026-02-01T05:59:00", False),
        ({"zone": "Europe/Berlin", "from": "08:00", "to": "09:00"}, "2026-07-01T06:30:00", True),
        ({"zone": "Europe/Berlin", "from": "08:00", "to": "09:00"}, "2026-01-01T06:30:00", False),
    ],
)
def test_a_window_is_open_by_the_clock_of_its_zone(window: dict[str, Any], moment: str, fits: bool) -> None:
    assert met({"times": [window]}, now=datetime.fromisoformat(f"{moment}+00:00")) is fits


def test_a_zone_that_only_another_server_knows_is_no_wrong_answer() -> None:
    window = Window.model_construct(zone="Europe/Nowhere", days=["mon"], begin="00:00", end="24:00")
    with pytest.raises(Unavailable, match="Europe/Nowhere"):
        Week("Europe/Nowhere", [(window, 1)])


WINDOWS = st.fixed_dictionaries(
    {
        "zone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "days": st.lists(st.sampled_from(["mon", "wed", "sun"]), min_size=1, max_size=3, unique=True),
        "from": st.sampled_from(["00:00", "06:30", "23:59"]),
        "to": st.sampled_from(["06:29", "12:00", "24:00"]),
    }
)
MATCHES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "task": st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
            "user": st.sampled_from("xyz"),
            "locale": st.sampled_from(["de", "de-ch", "fr"]),
            "headers": st.sampled_from([[{"name": "H", "prefix": "a"}], [{"name": "h", "present": False}]]),
            "times": st.lists(WINDOWS, min_size=1, max_size=2),
        },
    ).filter(bool),
    max_size=2,
)
SEEN = st.builds(
    Circumstances,
    task=st.sampled_from([None, "a", "b"]),
    user=st.sampled_from([None, "x", "y"]),
    locales=st.sampled_from([(), ("de-ch",), ("fr", "de")]),
    headers=st.sampled_from([{}, {"h": "ab"}, {"h": "b"}]),
    now=st.datetimes(datetime(2026, 3, 20), datetime(2026, 4, 10), timezones=st.just(UTC)),
)


@given(st.lists(MATCHES, min_size=1, max_size=6), SEEN)
def test_all_rules_at_once_find_what_one_rule_at_a_time_finds(
    rules: list[list[dict[str, Any]]], seen: Circumstances
) -> None:
    """Languages apart: those of a whole route are compared with each other."""
    whole = [[{**match, "locale": "de"} if "locale" in match else match for match in matches] for matches in rules]
    found = route(*(rule(f"r{at}", *matches) for at, matches in enumerate(whole)))
    first = next(
        (f"r{at}" for at, matches in enumerate(whole) if not matches or any(met(one, **vars(seen)) for one in matches)),
        None,
    )
    assert found.ruling(seen).rule == first
    tried = list(found.tried(seen))
    assert [one.fits for one in tried] == [False] * (len(tried) - 1) + [first is not None]


def test_a_rule_that_falls_through_leaves_its_defaults_and_the_narrower_limits_hold() -> None:
    def defaults(prompt: str, most: int, low: float) -> dict[str, Any]:
        return {"systemPrompt": prompt, "limits": {"maxTokens": most, "temperature": {"min": low}}}

    through = {"name": "through", "next": True, "defaults": {**defaults("first", 10, 0.5), "topP": 0.5}}
    found = route(through, rule("it", defaults=defaults("second", 20, 0.25))).ruling(UNKNOWN)
    assert found.rule == "it"
    assert (found.defaults.system_prompt, found.defaults.top_p) == ("second", 0.5)
    limits = found.defaults.limits
    assert (limits.max_tokens, limits.temperature and limits.temperature.min) == (10, 0.5)


def test_where_no_rule_fits_none_does() -> None:
    found = route(rule("it", {"task": "a"}), {"name": "through", "next": True}).ruling(UNKNOWN)
    assert (found.rule, found.arms) == (None, ())
