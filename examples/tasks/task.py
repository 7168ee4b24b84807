"""Task: what one example adapter learns, with its examples and its score."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

DATA = Path(__file__).resolve().parent.parent / "data"


@dataclass(frozen=True)
class Example:
    """One prompt as a user would type it, with the answer to learn."""

    prompt: str
    expected: str
    #: What a score needs beyond the expected answer, such as inputs to run a function on.
    checks: tuple[str, ...] = ()


Draw = Callable[[Random, int], list[Example]]


@dataclass(frozen=True)
class Task:
    """What one adapter learns: draw examples, show the base the instruction, score the answers."""

    name: str
    metric: str
    description: str
    #: Put before the text for the base model, which has not been trained on the bare text.
    instruction: str
    train: Draw
    held_out: Draw
    #: From an example and an answer to a number between 0 and 1.
    score: Callable[[Example, str], float]
    max_new_tokens: int

    def instructed(self, prompt: str) -> str:
        return f"{self.instruction}\n\n{prompt}"


def read_table(name: str) -> dict[tuple[str, str], list[str]]:
    """Read `data/<name>.tsv`: texts by (split, label)."""
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    with (DATA / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            texts[row["split"], row["label"]].append(row["text"])
    return dict(texts)


def distinct(draw: Callable[[], Example], count: int, *, tries: int = 50) -> list[Example]:
    """Draw until there are `count` examples with different prompts, or draws stop bringing new ones."""
    found: dict[str, Example] = {}
    for _ in range(count * tries):
        example = draw()
        found.setdefault(example.prompt, example)
        if len(found) == count:
            break
    return list(found.values())
