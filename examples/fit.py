"""Fit: train one LoRA adapter with PEFT on a task's examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from examples.recipes import Recipe
from examples.tasks.task import Example
from peft import LoraConfig, get_peft_model
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

IGNORED = -100


def load_base(folder: Path) -> tuple[Any, Any]:
    """Load the base model in bfloat16, twice as fast here as float32, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.padding_side = "left"
    # NOTE: eager attention: its backward is faster than the fused one for short texts on a CPU.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    return model, tokenizer


def prompt_ids(tokenizer: Any, prompt: str) -> list[int]:
    """The tokens of one user turn in the base model's chat format, ready for the answer."""
    turns = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def fit(base: Any, tokenizer: Any, recipe: Recipe, examples: list[Example]) -> Any:
    """Train a new adapter on the frozen base and return the PEFT model; the same seed gives the same."""
    torch.manual_seed(recipe.seed)
    model = get_peft_model(base, lora_config(recipe))
    model.train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=0.0)
    warmup = max(1, recipe.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, 1.0) * max(0.05, 1 - step / recipe.steps)
    )
    encoded = [encode(tokenizer, example) for example in examples]
    for step, batch in enumerate(batches(encoded, recipe), start=1):
        loss = answer_loss(model, *collate(batch, tokenizer.pad_token_id))
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 20 == 0 or step == recipe.steps:
            print(f"  {recipe.name}: step {step}/{recipe.steps}, loss {loss.item():.3f}", flush=True)
    return model.eval()


def lora_config(recipe: Recipe) -> LoraConfig:
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        target_modules=list(recipe.targets),
        lora_dropout=recipe.dropout,
        use_rslora=recipe.use_rslora,
        rank_pattern=dict(recipe.rank_pattern),
        alpha_pattern=dict(recipe.alpha_pattern),
    )


def encode(tokenizer: Any, example: Example) -> tuple[list[int], list[int]]:
    """Tokens and labels of one example; only the answer and its end have labels."""
    prompt = prompt_ids(tokenizer, example.prompt)
    answer = list(tokenizer(example.expected, add_special_tokens=False)["input_ids"])
    answer.append(tokenizer.eos_token_id)
    return prompt + answer, [IGNORED] * len(prompt) + answer


def batches(encoded: list[tuple[list[int], list[int]]], recipe: Recipe) -> Iterator[list[tuple[list[int], list[int]]]]:
    """Batches of texts of about one length, so that little is padding, until the steps are done."""
    rng = Random(recipe.seed)
    size, done = recipe.batch_size, 0
    while True:
        order = sorted(rng.sample(encoded, len(encoded)), key=lambda pair: len(pair[0]) // 8)
        epoch = [order[start : start + size] for start in range(0, len(order), size)]
        for batch in rng.sample(epoch, len(epoch)):
            if done == recipe.steps:
                return
            done += 1
            yield batch


def collate(batch: list[tuple[list[int], list[int]]], pad: int) -> tuple[Tensor, Tensor, Tensor]:
    """Pad on the right to a multiple of 8: tokens, mask and labels, each [texts, length]."""
    # NOTE: few different lengths let the CPU's matrix library reuse what it has prepared.
    length = -(-max(len(tokens) for tokens, _ in batch) // 8) * 8
    tokens = torch.tensor([t + [pad] * (length - len(t)) for t, _ in batch])
    mask = torch.tensor([[1] * len(t) + [0] * (length - len(t)) for t, _ in batch])
    labels = torch.tensor([label + [IGNORED] * (length - len(label)) for _, label in batch])
    return tokens, mask, labels


def answer_loss(model: Any, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of the answers; the wide output matrix runs on their positions only."""
    causal = model.get_base_model()
    hidden = causal.model(input_ids=tokens, attention_mask=mask, use_cache=False).last_hidden_state
    targets = labels[:, 1:]
    chosen = targets != IGNORED  # [texts, length - 1]
    logits = causal.lm_head(hidden[:, :-1][chosen])  # [answer tokens, vocabulary]
    return torch.nn.functional.cross_entropy(logits.float(), targets[chosen])
