"""Evaluations of a desk's versions, with files in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.registry.evaluations.rows import Evaluation
from support.desk import Desk, Ticking
from support.evaluations import put, task

if TYPE_CHECKING:
    from collections.abc import Mapping


class Book:
    """What a test of evaluations works with."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.store = MemoryStore()
        self.evaluations = Evaluations(desk.database, self.store, Ticking())

    def add(self, reference: str = "tone:1.0.0", *, tenant: str = "local", **fields: Any) -> Evaluation:
        said = fields if "family" in fields else task(**fields)
        body = EvaluationBody.read(json.dumps(said).encode())
        return self.evaluations.add(tenant, reference, body, actor="me")

    def examples(self, scores: Mapping[str, float], metric: str = "accuracy") -> dict[str, str]:
        lines = [json.dumps({"id": one, "scores": {metric: score}}) for one, score in scores.items()]
        return {"digest": put(self.store, "\n".join(lines).encode())}


@pytest.fixture
def book(desk: Desk) -> Book:
    desk.push(1)
    return Book(desk)
