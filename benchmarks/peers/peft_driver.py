"""PEFT in a process of its own: one JSON object of work a line on stdin, one JSON object of times a line on stdout.

Runs in PEFT's environment and imports nothing of ours:

    python peft_driver.py BASE_FOLDER NAME=ADAPTER_FOLDER …

Every batch is a static one: `rows` requests begin together and end together. `mixed` answers all rows in one batch with
`adapter_names`; `sequential` groups the rows by adapter and answers group after group with `set_adapter`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

#: PEFT's name, in `adapter_names`, for a row without an adapter.
_NO_ADAPTER = "__base__"


class Clock:
    """A stopping criterion that never stops and notes when each token of the batch was there."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:
        self.times_s.append(time.perf_counter())
        return torch.zeros(len(input_ids), dtype=torch.bool)


def main() -> None:
    folder, *adapters = sys.argv[1:]
    driver = Driver(folder, dict(one.split("=", 1) for one in adapters))
    replies: dict[str, Callable[..., Any]] = {"run": driver.run, "greedy": driver.greedy, "ready": lambda: "ready"}
    for line in sys.stdin:
        work = json.loads(line)
        print(json.dumps(replies[work.pop("do")](**work)), flush=True)


class Driver:
    """The model with its adapters, all in bfloat16."""

    def __init__(self, folder: str, adapters: dict[str, str]) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        for name, place in adapters.items():
            self._load(name, place)
        self.model.eval()
        self.adapters = set(adapters)

    def _load(self, name: str, place: str) -> None:
        from peft import PeftModel  # not needed, nor paid for, where only the base answers

        if isinstance(self.model, PeftModel):
            self.model.load_adapter(place, name, autocast_adapter_dtype=False)
        else:
            self.model = PeftModel.from_pretrained(self.model, place, name, autocast_adapter_dtype=False)
        self.model.to(torch.bfloat16)

    def run(self, mode: str, rows: int, asks: list[tuple[str, list[int]]], output_tokens: int) -> dict[str, Any]:
        """`asks` (model and prompt of each), `rows` at a time; times in seconds, in the form that `Measured` has."""
        made: dict[str, Any] = {"tokens": 0, "ttft_s": [], "gaps_s": []}
        began = time.perf_counter()
        for begin in range(0, len(asks), rows):
            self._batch(mode, asks[begin : begin + rows], output_tokens, made)
        return made | {"wall_s": time.perf_counter() - began}

    def greedy(self, name: str, prompt: list[int], count: int) -> str:
        """The text of the next `count` tokens."""
        tokens, _ = self._generate([name], [prompt], count, mixed=False)
        return str(self.tokenizer.decode(tokens[0]))

    def _batch(self, mode: str, asks: list[tuple[str, list[int]]], output_tokens: int, made: dict[str, Any]) -> None:
        asked = time.perf_counter()
        for group in [asks] if mode == "mixed" else grouped(asks):
            names, prompts = zip(*group, strict=True)
            tokens, times = self._generate(list(names), list(prompts), output_tokens, mixed=mode == "mixed")
            made["tokens"] += tokens.numel()
            gaps = [later - earlier for earlier, later in pairwise(times)]
            for _ in group:
                made["ttft_s"].append(times[0] - asked)
                made["gaps_s"] += gaps

    @torch.inference_mode()
    def _generate(
        self, names: list[str], prompts: list[list[int]], count: int, *, mixed: bool
    ) -> tuple[torch.Tensor, list[float]]:
        clock, inputs = Clock(), torch.tensor(prompts)
        options: dict[str, Any] = {
            "attention_mask": torch.ones_like(inputs),
            "max_new_tokens": count,
            "min_new_tokens": count,
            "do_sample": False,
            "pad_token_id": 0,
            "stopping_criteria": [clock],
        }
        model = self.model
        if mixed and self.adapters & set(names):
            options["adapter_names"] = [name if name in self.adapters else _NO_ADAPTER for name in names]
        elif names[0] in self.adapters:
            model.set_adapter(names[0])
        elif self.adapters:
            with model.disable_adapter():
                return model.generate(inputs, **options)[:, inputs.shape[1] :], clock.times_s
        return model.generate(inputs, **options)[:, inputs.shape[1] :], clock.times_s


def grouped(asks: list[tuple[str, list[int]]]) -> Iterator[list[tuple[str, list[int]]]]:
    """The requests of each model together."""
    for name in dict.fromkeys(name for name, _ in asks):
        yield [ask for ask in asks if ask[0] == name]


if __name__ == "__main__":
    main()
