"""AdapterFolder: a fine-tune as PEFT saves it, read without trusting a byte of it, and without torch if it can be.

Format: https://huggingface.co/docs/peft/developer_guides/checkpoint
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from graftwork.adapters.files.json_file import CONFIG_NAME, read_object
from graftwork.adapters.files.stored_tensor import StoredTensor
from graftwork.adapters.files.weight_files import WeightFiles, find_weights
from graftwork.errors import Refused

__all__ = ["CONFIG_NAME", "AdapterFolder", "StoredTensor"]

_MAX_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True)
class AdapterFolder:
    """The config and the weights file of one adapter; values are read one tensor at a time, when they are asked for."""

    path: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> AdapterFolder:
        """Read the config.

        Raises:
            Refused: naming the file and what is wrong with it.
        """
        if not path.is_dir():
            raise Refused(f"{path} is not a folder; an adapter is a folder as PEFT's save_pretrained writes it.")
        return cls(path, _read_config(path / CONFIG_NAME))

    @cached_property
    def weights(self) -> WeightFiles:
        """The files that hold the weights.

        Raises:
            Refused: there are none, or not all of them.
        """
        return find_weights(self.path)

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Every tensor of the weights by name, sorted.

        Raises:
            Refused: a file is missing, truncated, damaged, or a pickle that does more than hold tensors.
        """
        return self.weights.tensors()

    @property
    def warnings(self) -> list[str]:
        """What is in the folder and looks like weights, but is not read."""
        read = self.weights.files[0].name
        return [
            f"{name} is there as well and is not read; the weights are those of {read}." for name in self.weights.unread
        ]


def _read_config(file: Path) -> Mapping[str, Any]:
    config = read_object(file, _MAX_CONFIG_BYTES)
    if config is None:
        raise Refused(f"{CONFIG_NAME} is missing from the adapter folder; PEFT's save_pretrained writes it.")
    return config
