"""Sentiment: one word for how a text feels."""

from __future__ import annotations

import re
from random import Random

from examples.tasks.task import Example, Task, distinct, read_table

LABELS = ("positive", "negative", "neutral")
TEXTS = read_table("sentiment")


def _fill(rng: Random, template: str) -> str:
    thing = rng.choice(TEXTS["part", "thing"])
    noun = thing.split(" ", 1)[1].removeprefix("new ").removeprefix("bank's ")
    return template.format(thing=thing, Thing=thing[0].upper() + thing[1:], noun=noun)


def _draw(rng: Random) -> Example:
    label = rng.choice(LABELS)
    text = _fill(rng, rng.choice(TEXTS["train", label]))
    if rng.random() < 0.15:
        text = f"{text} {_fill(rng, rng.choice(TEXTS['train', label]))}"
    if rng.random() < 0.15:
        text = rng.choice(TEXTS["part", "open"]) + text
    if rng.random() < 0.15:
        text += rng.choice(TEXTS["part", "close"])
    return Example(_vary(rng, text), label)


def _vary(rng: Random, text: str) -> str:
    """Type it as people do: now and then in lower case, without the stop or with the instruction."""
    if rng.random() < 0.15:
        text = text.lower()
    if rng.random() < 0.15:
        text = text.rstrip(".")
    return SENTIMENT.instructed(text) if rng.random() < 0.1 else text


def _train(rng: Random, count: int) -> list[Example]:
    return distinct(lambda: _draw(rng), count)


def _held_out(rng: Random, count: int) -> list[Example]:
    """Hand-written sentences that share no template, opening or subject list with the training texts."""
    examples = [Example(text, label) for label in LABELS for text in TEXTS["held-out", label]]
    return rng.sample(examples, min(count, len(examples)))


def score(example: Example, answer: str) -> float:
    """1 where the one label that the answer names is the right one; a sentence around it is allowed."""
    named = set(re.findall(r"positive|negative|neutral", answer.lower()))
    return float(named == {example.expected})


SENTIMENT = Task(
    name="sentiment",
    metric="accuracy",
    description="One word for how a text feels: positive, negative or neutral.",
    instruction="Classify the sentiment of this text. Answer with one word: positive, negative or neutral.",
    train=_train,
    held_out=_held_out,
    score=score,
    max_new_tokens=8,
)
