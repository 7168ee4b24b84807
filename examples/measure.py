"""Measure: score a model's greedy answers on held-out examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from examples.fit import prompt_ids
from examples.tasks.task import Example, Task


@dataclass(frozen=True)
class Measurement:
    """The mean score with the answers behind it."""

    score: float
    answers: list[str]
    scores: list[float]


def measure(model: Any, tokenizer: Any, task: Task, examples: list[Example], *, instructed: bool) -> Measurement:
    """Answer every example and score it; `instructed` puts the task's instruction before the text."""
    prompts = [task.instructed(e.prompt) if instructed else e.prompt for e in examples]
    answers = answer_all(model, tokenizer, prompts, task.max_new_tokens)
    scores = [task.score(example, answer) for example, answer in zip(examples, answers, strict=True)]
    return Measurement(round(sum(scores) / len(scores), 4), answers, scores)


def answer_all(
    model: Any, tokenizer: Any, prompts: list[str], max_new_tokens: int, *, batch_size: int = 16
) -> list[str]:
    """Greedy answers, batched by length and returned in the order of the prompts."""
    encoded = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(prompts)), key=lambda index: len(encoded[index]))
    answers = [""] * len(prompts)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        for index, answer in zip(
            chosen, _answer(model, tokenizer, [encoded[i] for i in chosen], max_new_tokens), strict=True
        ):
            answers[index] = answer
    return answers


def _answer(model: Any, tokenizer: Any, encoded: list[list[int]], max_new_tokens: int) -> list[str]:
    length = max(map(len, encoded))
    pad = tokenizer.pad_token_id
    tokens = torch.tensor([[pad] * (length - len(ids)) + ids for ids in encoded])
    mask = torch.tensor([[0] * (length - len(ids)) + [1] * len(ids) for ids in encoded])
    with torch.inference_mode():
        output = model.generate(
            input_ids=tokens,
            attention_mask=mask,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            pad_token_id=pad,
        )
    return [text.strip() for text in tokenizer.batch_decode(output[:, length:], skip_special_tokens=True)]
