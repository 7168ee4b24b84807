"""Scores of examples: a stored file of lines `{"id": "17", "scores": {"accuracy": 1}}`, read strictly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from graftwork.errors import InvalidRequest

MAX_EXAMPLES = 100_000
MAX_BYTES = 16 << 20
MAX_LINE_BYTES = 64 << 10
MAX_ID = 256
#: Whose squares, summed over all examples, are still numbers.
MAX_SCORE = 1e100

#: By metric, then by the example's id.
Scores = dict[str, dict[str, float]]


def read_examples(chunks: Iterable[bytes]) -> Scores:
    """The scores in the chunks of a file.

    Raises:
        InvalidRequest: naming the line that is not as it must be, or the limit that the file is beyond.
    """
    scores: Scores = {}
    ids = set[str]()
    for number, line in enumerate(_lines(chunks), start=1):
        if number > MAX_EXAMPLES:
            _refuse(f"There are more than {MAX_EXAMPLES} examples; take a sample of them.")
        example = _parsed(line, number)
        if example["id"] in ids:
            _refuse(f"Line {number}: the id {example['id'][:80]!r} is there twice.")
        ids.add(example["id"])
        for metric, score in example["scores"].items():
            scores.setdefault(metric, {})[example["id"]] = _score(score, metric, number)
    if not scores:
        _refuse("The file has no scores in it.")
    return scores


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    held, total = b"", 0
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_BYTES:
            _refuse(f"The file is larger than {MAX_BYTES} bytes; keep id and scores only.")
        *lines, held = (held + chunk).split(b"\n")
        yield from lines
        if len(held) > MAX_LINE_BYTES:
            break
    if held:
        yield held


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:
        _refuse(f"Line {number} is longer than {MAX_LINE_BYTES} bytes; keep id and scores only.")
    try:
        example = json.loads(line)
    except (ValueError, RecursionError):
        _refuse(f"Line {number} is not JSON.")
    if not isinstance(example, dict) or example.keys() != {"id", "scores"}:
        _refuse(f'Line {number} is not like {{"id": "17", "scores": {{"accuracy": 1}}}}.')
    if not isinstance(example["id"], str) or not 0 < len(example["id"]) <= MAX_ID:
        _refuse(f"Line {number}: the id must be text of 1 to {MAX_ID} characters.")
    if not isinstance(example["scores"], dict):
        _refuse(f"Line {number}: the scores must be an object of numbers by metric.")
    return example


def _score(score: object, metric: str, number: int) -> float:
    if not isinstance(score, int | float) or not abs(score) <= MAX_SCORE:  # true and false are 1 and 0
        _refuse(f"Line {number}: the score of {metric[:80]!r} is no number from -{MAX_SCORE:g} to {MAX_SCORE:g}.")
    return float(score)


def _refuse(message: str) -> NoReturn:
    raise InvalidRequest(f"The results by example cannot be read. {message}", field="examples.digest")
