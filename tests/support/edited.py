"""Edited copies of an adapter's folder: another config, other tensors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

Tensors = dict[str, Any]


def edited(whole: Path, folder: Path, tensors: Callable[[Tensors], Tensors] | None = None, **config: Any) -> Path:
    """A copy of `whole` in `folder` with some fields of its config changed, and its tensors as `tensors` makes them."""
    shutil.copytree(whole, folder)
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    if tensors is not None:
        weights = folder / "adapter_model.safetensors"
        save_file(tensors(load_file(weights)), weights)
    return folder
