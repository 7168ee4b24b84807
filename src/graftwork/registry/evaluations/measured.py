"""Measured: one number of an evaluation, with what it was measured on; read off a body as it was kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from graftwork.registry.evaluations.rows import Evaluation


@dataclass(frozen=True)
class Subject:
    """What two numbers must share to be compared: of which measurement, on what, and which of its metrics."""

    family: str
    name: str
    split: str | None
    source: str
    on: Mapping[str, Any]
    metric: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Measured:
    """A metric's value in one evaluation."""

    evaluation: Evaluation
    subject: Subject
    value: float
    stderr: float | None
    n: int | None
    unit: str | None
    higher_is_better: bool | None

    @property
    def key(self) -> tuple[str, str]:
        return self.evaluation.comparable, self.subject.metric

    def to_json(self) -> dict[str, Any]:
        return {"evaluation": self.evaluation.number, "value": self.value, "stderr": self.stderr, "n": self.n}


def measured(evaluation: Evaluation) -> Iterator[Measured]:
    """Every number in an evaluation."""
    from graftwork.protocol.evaluations import FAMILIES  # it needs pydantic; starting does not

    body = FAMILIES[evaluation.body["family"]].model_validate(evaluation.body)
    for one in body.measures():
        subject = Subject(body.family, body.name, body.split, body.source, body.measured_on(), one.name)
        yield Measured(evaluation, subject, one.value, one.stderr, one.n, one.unit, one.higher_is_better)


def change(before: float, after: float) -> float | None:
    """The difference; of two huge numbers there is none."""
    delta = after - before
    return delta if isfinite(delta) else None


def direction(before: float, after: float, higher_is_better: bool | None) -> str:
    """Whether the change is `better` or `worse`, the `same`, or of `unknown` worth."""
    if before == after:
        return "same"
    if higher_is_better is None:
        return "unknown"
    return "better" if (after > before) == higher_is_better else "worse"
