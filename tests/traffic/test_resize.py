"""resize: shares as asked for, and keys that move between an arm and the stable one only."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.traffic.resize import PARTS, resize, share_of
from graftwork.traffic.split import Slice, pick, point_of

ALL: tuple[Slice, ...] = (Slice("stable", 0.0, 1.0),)
POINTS = [point_of("support", f"user-{number}") for number in range(10_000)]
ARMS = ("a", "b", "c")
#: Shares of up to three arms, together at most 1.
SHARES = st.dictionaries(st.sampled_from(ARMS), st.integers(0, 1000), max_size=3).map(
    lambda found: {arm: number / max(1000, sum(found.values())) for arm, number in found.items()}
)


def arms(slices: tuple[Slice, ...], points: list[float] = POINTS) -> list[str]:
    return [pick(slices, point) for point in points]


@given(st.lists(SHARES, min_size=1, max_size=6))
def test_each_move_is_between_an_arm_that_changed_and_the_stable_one(steps: list[dict[str, float]]) -> None:
    before, last = ALL, dict.fromkeys(ARMS, 0.0)
    for shares in steps:
        after = resize(before, shares, stable="stable")
        now = {arm: share_of(after, arm) for arm in ARMS}
        for was, is_now in zip(arms(before, POINTS[:300]), arms(after, POINTS[:300]), strict=True):
            if was != is_now:
                assert is_now == "stable" or now[is_now] > last[is_now]
                assert was == "stable" or now[was] < last[was]
                grown = sum(max(0.0, now[arm] - last[arm]) for arm in ARMS)
                assert "stable" in (was, is_now) or grown > share_of(before, "stable")
        before, last = after, now


@given(st.lists(SHARES, min_size=1, max_size=6))
def test_slices_cover_everything_once_and_shares_are_what_was_asked_for(steps: list[dict[str, float]]) -> None:
    slices = ALL
    for shares in steps:
        slices = resize(slices, shares, stable="stable")
        assert (slices[0].start, slices[-1].end) == (0.0, 1.0)
        assert all(one.end == after.start for one, after in pairwise(slices))
        for arm in ARMS:
            assert share_of(slices, arm) == pytest.approx(shares.get(arm, 0.0), abs=1.5 / PARTS)
    assert resize(slices, {}, stable="stable") == ALL


def test_a_sole_arm_has_the_first_slice_whatever_way_it_came_there() -> None:
    slices = ALL
    for share in (0.1, 0.2, 0.05, 1.0, 0.3):
        slices = resize(slices, {"canary": share}, stable="stable")
        assert slices[0] == Slice("canary", 0.0, share)


def test_the_order_in_which_arms_are_named_does_not_matter() -> None:
    one = resize(ALL, {"a": 0.1, "b": 0.3}, stable="stable")
    assert one == resize(ALL, {"b": 0.3, "a": 0.1}, stable="stable")


def test_ten_thousand_users_keep_their_arm_while_another_arm_joins_and_weights_go_up_and_down() -> None:
    slices, held = ALL, [set[int](range(0))]
    for share in (0.1, 0.2, 0.05, 0.2):
        slices = resize(slices, {"a": share, "b": 0.1}, stable="stable")
        found = arms(slices)
        assert abs(found.count("a") / len(found) - share) < 0.02 and abs(found.count("b") / len(found) - 0.1) < 0.02
        held.append({number for number, arm in enumerate(found) if arm == "a"})
        assert {number for number, arm in enumerate(found) if arm == "b"}.isdisjoint(held[-1])
    assert held[1] < held[2] and held[3] < held[2] and held[2] == held[4]


def test_all_of_the_keys_can_be_given_to_arms_that_do_not_divide_them_evenly() -> None:
    slices = resize(ALL, dict.fromkeys("abcdef", 1 / 6), stable="stable")
    assert share_of(slices, "stable") == 0.0
