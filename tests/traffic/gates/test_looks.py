"""Looks: limits, counts and times as Argo has them, but that nothing known is never a success."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graftwork.traffic.gates.evidence import in_window
from graftwork.traffic.gates.looks import next_look, phase_of
from graftwork.traffic.verdict import Result
from support.analysis import answer, rate_metric

NINE = datetime(2026, 1, 31, 9, tzinfo=UTC)


def phase(looks: str, **fields: Any) -> str:
    words: dict[str, Result] = {"p": "pass", "f": "fail", "i": "inconclusive"}
    return phase_of(rate_metric(successCondition="result >= 0.9", **fields), Counter(words[one] for one in looks))


@pytest.mark.parametrize(
    ("looks", "fields", "found"),
    [
        ("", {}, "running"),
        ("p", {}, "pass"),
        ("f", {}, "fail"),
        ("iiiiiiii", {}, "running"),  # nothing known yet is no end
        ("iiiip", {}, "pass"),
        ("pp", {"interval": "30s", "count": 3}, "running"),
        ("pppi", {"interval": "30s", "count": 3}, "pass"),
        ("iii", {"interval": "30s", "count": 3}, "running"),  # where Argo says success
        ("p" * 50, {"interval": "30s"}, "running"),  # as long as the step lasts
        ("pfp", {"interval": "30s", "count": 3, "failureLimit": 1}, "running"),
        ("pfppf", {"interval": "30s", "count": 4, "failureLimit": 1}, "fail"),
        ("ii", {"inconclusiveLimit": 1}, "inconclusive"),
        ("i", {"inconclusiveLimit": 0}, "inconclusive"),
        ("if", {"inconclusiveLimit": 0}, "fail"),
    ],
)
def test_looks_come_to(looks: str, fields: dict[str, Any], found: str) -> None:
    assert phase(looks, **fields) == found


def test_the_order_of_looks_does_not_matter() -> None:
    limits = {"interval": "1s", "count": 2, "failureLimit": 1, "inconclusiveLimit": 3}
    for looks in ("ppfii", "fpipi", "iifpp"):
        assert phase(looks, **limits) == "pass"


def test_looks_are_an_interval_apart_after_a_delay() -> None:
    one = rate_metric(successCondition="result >= 0.9", initialDelay="5m", interval="30s", count=2)
    assert next_look(one, began=NINE, last=None) == NINE + timedelta(minutes=5)
    assert next_look(one, began=NINE, last=NINE + timedelta(minutes=7)) == NINE + timedelta(minutes=7, seconds=30)
    plain = rate_metric(successCondition="result >= 0.9")
    assert next_look(plain, began=NINE, last=NINE) == NINE + timedelta(seconds=10)


def test_a_window_has_the_answers_of_an_arms_version_since_the_step_began() -> None:
    seen = [
        answer(70),
        answer(60),
        answer(59),  # before the step
        answer(65, arm="stable"),
        answer(66, digest="sha256:b"),  # of the version that the arm had before
        answer(120),  # not settled yet: only the fast ones are known
        answer(110),
    ]
    found = in_window(
        seen,
        arm="candidate",
        digest="sha256:a",
        since=NINE + timedelta(seconds=60),
        now=NINE + timedelta(seconds=120),
        settle_s=10,
    )
    assert [one.at[14:19] for one in found] == ["01:00", "01:10", "01:50"]
