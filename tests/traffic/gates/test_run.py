"""Run: looks are taken when they are due, add up by the limits, and need no evidence before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from graftwork.protocol.analysis import MetricPart
from graftwork.traffic.gates.evidence import Evidence
from graftwork.traffic.gates.run import Run
from support.analysis import answers, evidence, rate_metric, spec

NINE = datetime(2026, 1, 31, 9, tzinfo=UTC)
GOOD, BAD, FEW = evidence(answers(1000)), evidence(answers(50, 50)), evidence(answers(3))


def gate(**fields: Any) -> MetricPart:
    return rate_metric(successCondition="result >= 0.95", **fields)


def after(run: Run, *shown: Evidence, every_s: float = 30) -> Run:
    """Gone on with at each time, being shown that."""
    for number, one in enumerate(shown):
        run = run.look(NINE + timedelta(seconds=number * every_s), partial(_same, one))
    return run


def _same(shown: Evidence) -> Evidence:
    return shown


def never() -> Evidence:
    raise AssertionError("nobody needs evidence now")


def test_it_is_looked_at_after_the_delay_and_once_per_interval() -> None:
    run = Run(spec(gate(initialDelay="60s", interval="30s", count=3)), NINE)
    assert run.look(NINE + timedelta(seconds=59), never) is run
    run = run.look(NINE + timedelta(seconds=60), lambda: GOOD)
    assert run.look(NINE + timedelta(seconds=89), never) is run
    assert run.verdict.result == "inconclusive" and "passed 1 of 3 looks so far" in run.verdict.reason


def test_what_is_decided_is_not_looked_at_again() -> None:
    for shown, result in ((GOOD, "pass"), (BAD, "fail")):
        run = after(Run(spec(gate()), NINE), shown)
        assert run.verdict.result == result
        assert run.look(NINE + timedelta(hours=1), never) is run


def test_what_is_not_known_is_looked_at_until_it_is() -> None:
    run = after(Run(spec(gate()), NINE), FEW, FEW, FEW)
    assert run.verdict.result == "inconclusive" and "3 of at least 50 answers" in run.verdict.reason
    assert after(Run(spec(gate()), NINE), FEW, FEW, GOOD).verdict.result == "pass"
    limited = after(Run(spec(gate(inconclusiveLimit=1)), NINE), FEW, FEW, GOOD)
    assert limited.verdict.result == "inconclusive" and limited.due(NINE + timedelta(hours=1)) == ()


@pytest.mark.parametrize(("limit", "result"), [(0, "fail"), (1, "pass")])
def test_a_failing_look_is_borne_up_to_the_limit(limit: int, result: str) -> None:
    run = Run(spec(gate(interval="30s", count=2, failureLimit=limit)), NINE)
    assert after(run, GOOD, BAD, GOOD).verdict.result == result


def test_a_metric_without_count_stands_as_its_last_look_left_it() -> None:
    run = Run(spec(gate(interval="30s"), gate()), NINE)
    assert after(run, FEW, GOOD).verdict.result == "pass"
    assert after(run, GOOD, FEW).verdict.result == "inconclusive"
    failed = after(run, GOOD, GOOD, BAD).verdict
    assert failed.result == "fail" and "m0: result < 0.95 is proven" in failed.reason


def test_nothing_is_decided_before_the_first_look() -> None:
    assert Run(spec(gate()), NINE).verdict.result == "inconclusive"
    assert "not looked at yet" in Run(spec(gate()), NINE).verdict.reason
