"""Phrases: requests over lists put together from parts, with the Python that answers them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

NUMBERS = ("[3, -8, 12, 5, 0, 7, -2, 120]", "[10, 9, -7, 4, 15, 6, 151]", "[1, 2, 3, 4, 130, 30, -31]")
WORDS = (
    "['apple', 'bee', 'Tea', 'otter', 'sun', 'banana', 'toast', 'stone']",
    "['east', 'tab', 'seven', 'axe', 'bottle', 'Sky', 'tomato']",
)


@dataclass(frozen=True)
class Family:
    """One kind of list, with the parts that its requests are made of: code by wording."""

    item: str
    checks: tuple[str, ...]
    results: dict[str, str]
    changes: dict[str, str]
    conditions: dict[str, str]
    constants: tuple[str, ...]


NUMBER_LISTS = Family(
    item="number",
    checks=NUMBERS,
    results={
        "the sum of": "sum({})",
        "the total of": "sum({})",
        "the largest of": "max({})",
        "the smallest of": "min({})",
        "the number of": "len([{}])",
        "a list of": "[{}]",
        "a sorted list of": "sorted({})",
    },
    changes={
        "": "x",
        "the squares of": "x * x",
        "the cubes of": "x ** 3",
        "the doubles of": "2 * x",
        "the halves of": "x / 2",
        "the negatives of": "-x",
        "the absolute values of": "abs(x)",
    },
    conditions={
        "the numbers": "",
        "the even numbers": "x % 2 == 0",
        "the odd numbers": "x % 2 == 1",
        "the positive numbers": "x > 0",
        "the negative numbers": "x < 0",
        "the numbers greater than {n}": "x > {n}",
        "the numbers less than {n}": "x < {n}",
        "the numbers divisible by {k}": "x % {k} == 0",
        "the numbers that are not {n}": "x != {n}",
    },
    constants=("2", "3", "4", "5", "6", "10"),
)
WORD_LISTS = Family(
    item="word",
    checks=WORDS,
    results={
        "a list of": "[{}]",
        "a sorted list of": "sorted({})",
        "the number of": "len([{}])",
        "a string that joins": "' '.join({})",
    },
    changes={
        "": "x",
        "the lengths of": "len(x)",
        "the upper case forms of": "x.upper()",
        "the first letters of": "x[0]",
        "the reversed forms of": "x[::-1]",
    },
    conditions={
        "the words": "",
        "the words longer than {k} letters": "len(x) > {k}",
        "the words shorter than {k} letters": "len(x) < {k}",
        "the words starting with {c}": "x.startswith('{c}')",
        "the words ending with {c}": "x.endswith('{c}')",
        "the words containing {c}": "'{c}' in x",
    },
    constants=("3", "4", "5", "6"),
)
LETTERS = ("a", "b", "e", "s", "t", "o", "n")
Parts = tuple[Family, str, str, str]


def combinations() -> Iterator[Parts]:
    """All that makes sense: the number of squares is the number of items, and only words are joined."""
    for family in (NUMBER_LISTS, WORD_LISTS):
        for result in family.results:
            for change in family.changes:
                for condition in family.conditions:
                    counted = result == "the number of" and change != ""
                    joined = result == "a string that joins" and change == "the lengths of"
                    if not counted and not joined:
                        yield family, result, change, condition


def split_combinations() -> tuple[list[Parts], list[Parts]]:
    """A quarter of the combinations is never trained on."""
    order = list(combinations())
    Random(0).shuffle(order)
    quarter = len(order) // 4
    return order[quarter:], order[:quarter]


def phrase(rng: Random, parts: Parts) -> tuple[str, str, tuple[str, ...]]:
    """The wording, the function and the inputs to check it with."""
    family, result, change, condition = parts
    constants = {"k": rng.choice(family.constants), "n": str(rng.randint(1, 100)), "c": rng.choice(LETTERS)}
    words = [result, change, condition.format(**constants), f"in a list of {family.item}s"]
    if rng.random() < 0.5:
        words[-1] = "in a list"
    test = family.conditions[condition].format(**constants)
    items = f"{family.changes[change]} for x in xs" + (f" if {test}" if test else "")
    expression = family.results[result].format(items)
    return " ".join(word for word in words if word), f"def f(xs): return {expression}", family.checks
