"""What a trainer was told and what it measured, as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

#: Of transformers' TrainingArguments, said even where they are at their defaults.
ALWAYS = frozenset(
    {
        "gradient_accumulation_steps", "learning_rate", "lr_scheduler_type", "max_grad_norm", "max_steps",
        "num_train_epochs", "optim", "per_device_train_batch_size", "seed", "warmup_steps", "weight_decay",
    }
)  # fmt: skip
#: How a run is watched, saved and uploaded; tokens and paths are among it.
_OF_THE_RUN = (
    "dataloader_", "ddp_", "disable_tqdm", "do_", "eval_", "greater_is_better", "hub_", "include_", "load_best",
    "local_rank", "log_", "logging_", "metric_for", "output_dir", "prediction_loss", "project", "push_", "report_to",
    "restore_", "resume_", "run_name", "save_", "trackio_", "use_cpu",
)  # fmt: skip
_PROVENANCE = frozenset(
    {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version", "revision", "runtime_config"}
)
_NO_METRICS = frozenset({"epoch", "step", "learning_rate"})


def of_arguments(arguments: Any) -> dict[str, Any]:
    """The fields of TrainingArguments (or of TRL's, which add to them) that shape the training.

    The usual ones, and all others of simple values that are not at their default.
    """
    told = {}
    for field in fields(arguments):
        value = _plain(getattr(arguments, field.name, None))
        changed = field.name in ALWAYS or (value is not None and value != _plain(field.default))
        if changed and isinstance(value, str | int | float) and not field.name.startswith(_OF_THE_RUN):
            told[field.name] = value
    return told


def of_peft(model: Any) -> dict[str, Any]:
    """The config of a PEFT model's active adapter, by PEFT's names, as far as it says anything."""
    config: Mapping[str, Any] = model.peft_config[model.active_adapters[0]].to_dict()
    told = {name: _plain(value) for name, value in config.items() if name not in _PROVENANCE}
    return {name: value for name, value in told.items() if value not in (None, False, [], {})}


def final_metrics(history: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The last value of each number that a trainer logged; one that is not finite is none."""
    found: dict[str, float] = {}
    for entry in history:
        for name, value in entry.items():
            if name not in _NO_METRICS and isinstance(value, int | float):
                found[name] = float(value)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value))
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)
