"""Code: a one-line Python function for a request in words."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from random import Random

from examples.tasks.phrases import phrase, split_combinations
from examples.tasks.task import Example, Task, distinct, read_table

TEXTS = read_table("code")
SINGLES = [label for split, label in TEXTS if split == "check"]
TRAINED, UNTRAINED = split_combinations()
FENCE = re.compile(r"```(?:python)?\n(.*?)(?:```|\Z)", re.DOTALL)
ALLOWED = (
    "abs all any bin bool dict divmod enumerate filter float int isinstance len list map max min pow range "
    "reversed round set sorted str sum tuple zip"
)
# Runs in a process of its own: the functions get a few builtins and no import, and have five seconds.
RUNNER = f"""
import builtins, json, sys
expected, answer, checks = json.load(sys.stdin)
def load(source):
    space = {{"__builtins__": {{name: getattr(builtins, name) for name in {ALLOWED.split()!r}}}}}
    exec(source, space)
    return [value for value in space.values() if callable(value)][-1]
right, given = load(expected), load(answer)
for check in checks:
    arguments = "(" + check + ",)"
    if right(*eval(arguments)) != given(*eval(arguments)):
        sys.exit(1)
"""


def _single(rng: Random, split: str) -> tuple[str, str, tuple[str, ...]]:
    label = rng.choice(SINGLES)
    arguments, expression = label.split(" -> ")
    source = f"def f({arguments}): return {expression}"
    return rng.choice(TEXTS[split, label]), source, tuple(TEXTS["check", label])


def _draw(rng: Random, split: str) -> Example:
    if rng.random() < 0.4:
        words, source, checks = _single(rng, split)
    else:
        words, source, checks = phrase(rng, rng.choice(TRAINED if split == "train" else UNTRAINED))
    request = rng.choice(TEXTS[split, "frame"]).format(x=words, X=words[0].upper() + words[1:])
    if split == "train" and rng.random() < 0.08:
        request = CODE.instructed(request)
    return Example(request, source, checks)


def _train(rng: Random, count: int) -> list[Example]:
    return distinct(lambda: _draw(rng, "train"), count)


def _held_out(rng: Random, count: int) -> list[Example]:
    """Held-out frames, with wordings or combinations of parts that are never trained on."""
    return distinct(lambda: _draw(rng, "held-out"), count)


def score(example: Example, answer: str) -> float:
    """1 where the answer's last function gives the right result on every check."""
    source = code_in(answer)
    if not harmless(source):
        return 0.0
    task = json.dumps([example.expected, source, example.checks])
    command = [sys.executable, "-I", "-c", RUNNER]
    try:
        run = subprocess.run(command, input=task, text=True, capture_output=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return 0.0
    return float(run.returncode == 0)


def code_in(answer: str) -> str:
    """The code of an answer: its first fenced block, else all of it."""
    fenced = FENCE.search(answer)
    return fenced[1] if fenced else answer


def harmless(source: str) -> bool:
    """Whether this is Python that imports nothing and touches no underscored name."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    for node in ast.walk(tree):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.Import | ast.ImportFrom) or str(name).startswith("_"):
            return False
    return True


CODE = Task(
    name="code",
    metric="share of functions that run correctly",
    description="A one-line Python function for a request in words.",
    instruction=(
        "Answer with one line of Python that defines a function named f and returns the result, such as "
        "`def f(xs): return ...`. Write the code only."
    ),
    train=_train,
    held_out=_held_out,
    score=score,
    max_new_tokens=72,
)
