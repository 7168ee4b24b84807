"""Triton's vLLM backend: a model repository whose one model has every adapter; requests name one by `lora_name`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from graftwork.client.servers.served import Served
from graftwork.client.servers.vllm import max_rank

_CONFIG = """name: "{name}"
backend: "vllm"
max_batch_size: 0
model_transaction_policy {{ decoupled: True }}
input [
  {{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }},
  {{ name: "stream" data_type: TYPE_BOOL dims: [ 1 ] }},
  {{ name: "sampling_parameters" data_type: TYPE_STRING dims: [ 1 ] optional: true }}
]
output [ {{ name: "text_output" data_type: TYPE_STRING dims: [ -1 ] }} ]
instance_group [ {{ count: 1 kind: KIND_MODEL }} ]
"""


def files(served: Sequence[Served], base: str, root: Path) -> dict[str, str]:
    """Paths of adapters are absolute: mount the folder where it lies, or write it where it is mounted."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", base.rpartition("/")[2]) or "base"
    model: dict[str, object] = {"model": base}
    if served:
        model |= {"enable_lora": "true", "max_lora_rank": max_rank(served)}
    folder = f"model_repository/{name}"
    adapters = {one.name: str(root / "adapters" / one.folder) for one in served}
    texts = {"model.json": model, **({"multi_lora.json": adapters} if served else {})}
    made = {f"{folder}/1/{file}": json.dumps(text, indent=2) + "\n" for file, text in texts.items()}
    return {f"{folder}/config.pbtxt": _CONFIG.format(name=name), **made}
