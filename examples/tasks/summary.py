"""Summary: one sentence for a short text."""

from __future__ import annotations

import re
from random import Random

from examples.tasks.entities import MAKERS
from examples.tasks.task import Example, Task, distinct, read_table

STORIES = read_table("summary")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = ("January", "March", "April", "May", "June", "July", "September", "October", "November")
SLOT = re.compile(r"\{([plo])\d\}")
CHOICE = re.compile(r"\[(\w)=([^\]]*)\]")


def _draw(rng: Random, split: str) -> Example:
    story = rng.choice(STORIES[split, "story"])
    for slot in CHOICE.finditer(story):
        pick = rng.choice(slot[2].split("|"))
        story = story.replace(slot[0], pick).replace(f"[{slot[1]}]", pick)
    for slot in SLOT.finditer(story):
        story = story.replace(slot[0], MAKERS[slot[1]][1](rng, split))
    for slot_name, value in _values(rng).items():
        story = story.replace(f"{{{slot_name}}}", value)
    text, summary = (_capitalised(part) for part in story.split(" => "))
    if split == "train" and rng.random() < 0.08:
        text = SUMMARY.instructed(text)
    return Example(text, summary)


def _values(rng: Random) -> dict[str, str]:
    return {
        "day": rng.choice(DAYS),
        "month": rng.choice(MONTHS),
        "n": str(rng.choice((20, 40, 60, 80, 120, 150, 200, 300, 450, 800))),
        "k": str(rng.randint(3, 19)),
    }


def _capitalised(text: str) -> str:
    """Every sentence starts with a capital, also where a name such as 'the BBC' opens it."""
    return re.sub(r"(^|[.!?] )(\w)", lambda match: match[1] + match[2].upper(), text)


def _train(rng: Random, count: int) -> list[Example]:
    return distinct(lambda: _draw(rng, "train"), count)


def _held_out(rng: Random, count: int) -> list[Example]:
    """Held-out stories with held-out names: no story is shared with training."""
    return distinct(lambda: _draw(rng, "held-out"), count)


def score(example: Example, answer: str) -> float:
    """ROUGE-L: F1 of the longest common subsequence of words; https://aclanthology.org/W04-1013/."""
    expected, given = _words(example.expected), _words(answer)
    common = _longest_common(expected, given)
    return 2 * common / (len(expected) + len(given)) if given else 0.0


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _longest_common(left: list[str], right: list[str]) -> int:
    row = [0] * (len(right) + 1)
    for word in left:
        previous = row
        row = [0]
        for index, other in enumerate(right):
            row.append(previous[index] + 1 if word == other else max(previous[index + 1], row[index]))
    return row[-1]


SUMMARY = Task(
    name="summary",
    metric="ROUGE-L F1",
    description="A one-sentence summary of a short text.",
    instruction="Summarise this text in one short sentence. Write only the summary.",
    train=_train,
    held_out=_held_out,
    score=score,
    max_new_tokens=64,
)
