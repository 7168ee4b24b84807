"""Split: shares as stated, keys that stay, and keys that go only to what has grown beside what they leave."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.traffic.split import draw, point_of, shares

POINTS = [point_of("support", f"user-{number}") for number in range(10_000)]
#: Most by which a part of these keys is off its share: four standard deviations of a half.
OFF = 4 * math.sqrt(0.25 / len(POINTS))
NAMES = tuple("abcdefgh")
WEIGHTS = st.integers(1, 1000)
#: Two to eight lots by name.
LOTS = st.dictionaries(st.sampled_from(NAMES), WEIGHTS, min_size=2, max_size=8)


def lots(weights: Mapping[str, float], points: list[float] = POINTS) -> list[str]:
    """Who has each point."""
    told = list(weights.items())
    return [told[draw(told, point)][0] for point in points]


def moved(before: list[str], after: list[str]) -> Counter[tuple[str, str]]:
    """How many points went from which lot to which."""
    return Counter((was, now) for was, now in zip(before, after, strict=True) if was != now)


def change(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """How much of all points has to move, at least."""
    one, other = shares(list(before.items())), shares(list(after.items()))
    return sum(max(0.0, other.get(name, 0.0) - one.get(name, 0.0)) for name in NAMES)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5])
def test_a_lot_gets_its_share_of_the_keys(share: float) -> None:
    found = lots({"canary": share, "stable": 1 - share}).count("canary") / len(POINTS)
    assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / len(POINTS))


@hypothesis_settings(max_examples=10)
@given(LOTS)
def test_however_many_there_are_each_gets_its_share(weights: dict[str, int]) -> None:
    found = Counter(lots(weights))
    for name, share in shares(list(weights.items())).items():
        assert abs(found[name] / len(POINTS) - share) < OFF


def test_growing_moves_keys_to_the_canary_only_and_shrinking_brings_the_same_back() -> None:
    steps = [lots({"canary": share, "stable": 100 - share}) for share in (1, 5, 20, 50, 99, 50, 20, 5, 1)]
    held = [{at for at, name in enumerate(step) if name == "canary"} for step in steps]
    for small, large in pairwise(held[:5]):
        assert small < large
    assert held == held[::-1]


@hypothesis_settings(max_examples=15)
@given(LOTS, LOTS)
def test_keys_go_only_to_what_has_grown_beside_what_they_leave_and_few_do(
    before: dict[str, int], after: dict[str, int]
) -> None:
    found = moved(lots(before), lots(after))
    for was, now in found:
        assert after.get(now, 0) * before.get(was, 0) > before.get(now, 0) * after.get(was, 0)
    least = change(before, after)
    assert sum(found.values()) / len(POINTS) < 2 * least / (1 + least) + OFF


@hypothesis_settings(max_examples=10)
@given(LOTS, st.sampled_from(NAMES), WEIGHTS)
def test_where_one_weight_changes_keys_move_to_it_or_from_it_and_as_few_as_can(
    before: dict[str, int], name: str, weight: int
) -> None:
    """Also where it is new: its weight was none."""
    after = {**before, name: weight}
    found = moved(lots(before), lots(after))
    if weight >= before.get(name, 0):
        assert {now for _, now in found} <= {name}
    else:
        assert {was for was, _ in found} <= {name}
    assert abs(sum(found.values()) / len(POINTS) - change(before, after)) < OFF


@hypothesis_settings(max_examples=10)
@given(LOTS.filter(lambda found: len(found) > 2), st.randoms())
def test_a_lot_that_is_gone_leaves_the_others_their_keys_and_order_changes_nothing(
    before: dict[str, int], random: Random
) -> None:
    gone = next(iter(before))
    names = sorted(before.keys() - {gone})
    random.shuffle(names)
    found = moved(lots(before), lots({name: before[name] for name in names}))
    assert {was for was, _ in found} <= {gone}


def test_two_routes_split_the_same_keys_independently() -> None:
    half = {"canary": 1.0, "stable": 1.0}
    one, other = (lots(half, [point_of(salt, str(at)) for at in range(10_000)]) for salt in ("support", "billing"))
    both = sum(pair == ("canary", "canary") for pair in zip(one, other, strict=True)) / 10_000
    assert abs(both - 0.25) < 0.02


def test_where_salt_ends_and_key_begins_matters() -> None:
    assert point_of("ab", "c") != point_of("a", "bc")


@given(st.text(), st.text())
def test_every_key_has_a_point(salt: str, key: str) -> None:
    assert 0 <= point_of(salt, key) < 1


@pytest.mark.parametrize(
    "weights",
    [[], [("a", 0.0)], [("a", -1.0), ("b", 2.0)], [("a", math.nan)], [("a", math.inf)], [("a", 1.0), ("a", 1.0)]],
)
def test_weights_that_say_nothing_are_refused(weights: list[tuple[str, float]]) -> None:
    with pytest.raises(InvalidRequest):
        shares(weights)
