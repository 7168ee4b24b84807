"""Recipes: how each example adapter is shaped and trained."""

from __future__ import annotations

from dataclasses import dataclass, field

ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Recipe:
    """One adapter: its task, its LoRA shape (all different on purpose) and its training run."""

    name: str
    task: str
    rank: int
    alpha: int
    targets: tuple[str, ...]
    train_examples: int
    steps: int
    learning_rate: float = 1e-3
    batch_size: int = 8
    dropout: float = 0.05
    use_rslora: bool = False
    rank_pattern: dict[str, int] = field(default_factory=dict)
    alpha_pattern: dict[str, int] = field(default_factory=dict)
    held_out_examples: int = 100
    seed: int = 7
    note: str = ""


_ALL = (
    Recipe(
        "sentiment-v1",
        "sentiment",
        rank=4,
        alpha=8,
        targets=("q_proj", "v_proj"),
        train_examples=24,
        steps=45,
        learning_rate=2e-3,
        held_out_examples=108,
        note="An early version, undertrained on purpose: something for a canary to catch.",
    ),
    Recipe(
        "sentiment",
        "sentiment",
        rank=8,
        alpha=16,
        targets=("q_proj", "v_proj"),
        train_examples=2000,
        steps=240,
        learning_rate=1e-3,
        held_out_examples=108,
    ),
    Recipe(
        "entities",
        "entities",
        rank=8,
        alpha=16,
        targets=ATTENTION,
        train_examples=1600,
        steps=200,
    ),
    Recipe(
        "summary",
        "summary",
        rank=4,
        alpha=8,
        targets=ATTENTION + MLP,
        rank_pattern=dict.fromkeys(MLP, 2),
        train_examples=1200,
        steps=150,
        learning_rate=4e-4,
        held_out_examples=60,
    ),
    Recipe(
        "support",
        "support",
        rank=4,
        alpha=4,
        targets=ATTENTION,
        use_rslora=True,
        train_examples=1000,
        steps=120,
        held_out_examples=60,
    ),
    Recipe(
        "code",
        "code",
        rank=16,
        alpha=32,
        targets=("q_proj", "v_proj"),
        alpha_pattern={"v_proj": 16},
        train_examples=2000,
        steps=220,
        held_out_examples=80,
    ),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}
