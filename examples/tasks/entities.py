"""Entities: the people, places and organisations of a text as compact JSON."""

from __future__ import annotations

import json
import re
from random import Random

from examples.tasks.task import Example, Task, distinct, read_table

KINDS = ("people", "places", "organisations")
SLOT = re.compile(r"\{([plo])\d\}")
TEXTS = read_table("entities")


def _person(rng: Random, split: str) -> str:
    first = rng.choice(TEXTS[split, "first"])
    return first if rng.random() < 0.3 else f"{first} {rng.choice(TEXTS[split, 'last'])}"


def _place(rng: Random, split: str) -> str:
    return rng.choice(TEXTS[split, "place"])


def _organisation(rng: Random, split: str) -> str:
    if rng.random() < 0.4:
        return rng.choice(TEXTS[split, "organisation"])
    return f"{rng.choice(TEXTS[split, 'stem'])} {rng.choice(TEXTS[split, 'suffix'])}"


MAKERS = {"p": ("people", _person), "l": ("places", _place), "o": ("organisations", _organisation)}


def _fill(rng: Random, split: str, template: str) -> tuple[str, dict[str, list[str]]]:
    """Put names into a template's slots and list them in the order of the text."""
    found: dict[str, list[str]] = {kind: [] for kind in KINDS}
    text, end = "", 0
    for slot in SLOT.finditer(template):
        kind, make = MAKERS[slot[1]]
        name = make(rng, split)
        while name in found[kind]:
            name = make(rng, split)
        text += template[end : slot.start()]
        end = slot.end()
        found[kind].append(name.removeprefix("the "))
        text += name[0].upper() + name[1:] if not text else name
    return text + template[end:], found


def _draw(rng: Random, split: str) -> Example:
    text, found = _fill(rng, split, rng.choice(TEXTS[split, "template"]))
    if rng.random() < 0.25:
        more, others = _fill(rng, split, rng.choice(TEXTS[split, "template"]))
        text = f"{text} {more}"
        found = {kind: list(dict.fromkeys(found[kind] + others[kind])) for kind in KINDS}
    return Example(text, compact(found))


def _train(rng: Random, count: int) -> list[Example]:
    examples = distinct(lambda: _draw(rng, "train"), count)
    return [Example(ENTITIES.instructed(e.prompt), e.expected) if rng.random() < 0.08 else e for e in examples]


def _held_out(rng: Random, count: int) -> list[Example]:
    """Held-out sentences with held-out names: no template and no name list is shared with training."""
    return distinct(lambda: _draw(rng, "held-out"), count)


def compact(found: dict[str, list[str]]) -> str:
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def score(example: Example, answer: str) -> float:
    """F1 of the (kind, name) pairs; an answer that holds no JSON object scores 0."""
    expected, given = _pairs(example.expected), _pairs(answer)
    if expected is None or given is None:
        return 0.0
    if not expected and not given:
        return 1.0
    return 2 * len(expected & given) / (len(expected) + len(given))


def _pairs(answer: str) -> set[tuple[str, str]] | None:
    """The pairs in the first JSON object of an answer; what stands around it costs nothing."""
    try:
        fields, _ = json.JSONDecoder().raw_decode(answer[answer.find("{") :])
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    return {
        (kind, str(name).removeprefix("the ").strip())
        for kind, names in fields.items()
        if isinstance(names, list)
        for name in names
    }


ENTITIES = Task(
    name="entities",
    metric="entity F1",
    description="The people, places and organisations of a text as compact JSON.",
    instruction=(
        "List the people, places and organisations named in this text as JSON, in this form: "
        '{"people":["..."],"places":["..."],"organisations":["..."]}. Answer with the JSON only.'
    ),
    train=_train,
    held_out=_held_out,
    score=score,
    max_new_tokens=100,
)
