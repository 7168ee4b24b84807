"""Split: shares as stated, keys that stay, and growth that only takes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.traffic.split import pick, point_of, shares, slices_of

KEYS = [f"user-{number}" for number in range(10_000)]
POINTS = [point_of("support", key) for key in KEYS[:1000]]
WEIGHTS = st.lists(st.floats(0, 1e6), min_size=1, max_size=6).filter(lambda found: sum(found) > 0)


def arms(weights: list[tuple[str, float]], salt: str = "support") -> dict[str, str]:
    slices = slices_of(weights)
    return {key: pick(slices, point_of(salt, key)) for key in KEYS}


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.5])
def test_an_arm_gets_its_share_of_the_keys(share: float) -> None:
    found = list(arms([("canary", share), ("stable", 1 - share)]).values()).count("canary") / len(KEYS)
    assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / len(KEYS))


def test_growing_moves_keys_to_the_canary_only_and_shrinking_brings_the_same_back() -> None:
    steps = [arms([("canary", share), ("stable", 100 - share)]) for share in (0, 1, 5, 20, 50, 100, 50, 20, 5, 1, 0)]
    held = [{key for key, arm in step.items() if arm == "canary"} for step in steps]
    for small, large in pairwise(held[:6]):
        assert small < large
    assert held == held[::-1]
    assert (held[0], len(held[5])) == (set(), len(KEYS))


def test_two_routes_split_the_same_keys_independently() -> None:
    half = [("canary", 1.0), ("stable", 1.0)]
    one, other = arms(half, "support"), arms(half, "billing")
    both = sum(one[key] == other[key] == "canary" for key in KEYS) / len(KEYS)
    assert abs(both - 0.25) < 0.02


def test_where_salt_ends_and_key_begins_matters() -> None:
    assert point_of("ab", "c") != point_of("a", "bc")


@given(st.text(), st.text())
def test_every_key_has_a_point(salt: str, key: str) -> None:
    assert 0 <= point_of(salt, key) < 1


@given(WEIGHTS)
def test_slices_cover_everything_once_and_no_arm_without_weight_has_one(weights: list[float]) -> None:
    named = [(f"arm-{index}", weight) for index, weight in enumerate(weights)]
    found, wanted = slices_of(named), shares(named)
    assert (found[0].start, found[-1].end) == (0.0, 1.0)
    assert all(one.end == after.start for one, after in pairwise(found))
    for one in found:
        assert wanted[one.arm] > 0
        assert one.end - one.start == pytest.approx(wanted[one.arm], abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 49)), min_size=2, max_size=5))
def test_of_three_arms_keys_move_between_one_that_changed_and_the_last_and_nowhere_else(
    steps: list[tuple[int, int]],
) -> None:
    def placed(one: int, other: int) -> list[str]:
        slices = slices_of([("one", one), ("other", other), ("stable", 100 - one - other)])
        return [pick(slices, point) for point in POINTS]

    for before, after in pairwise(steps):
        for was, now in zip(placed(*before), placed(*after), strict=True):
            assert was == now or "stable" in (was, now), "never from one to the other"
            for at, arm in enumerate(("one", "other")):
                assert not (was != now == arm and after[at] <= before[at]), "to one that grew"
                assert not (now != was == arm and after[at] >= before[at]), "from one that shrank"


@pytest.mark.parametrize(
    "weights",
    [[], [("a", 0.0)], [("a", -1.0), ("b", 2.0)], [("a", math.nan)], [("a", math.inf)], [("a", 1.0), ("a", 1.0)]],
)
def test_weights_that_say_nothing_are_refused(weights: list[tuple[str, float]]) -> None:
    with pytest.raises(InvalidRequest):
        slices_of(weights)
