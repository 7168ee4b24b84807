"""vLLM's OpenAI server: a script that starts it with every adapter, and the list of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from graftwork.client.servers.served import Served

#: What `--max-lora-rank` may be.
RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
#: Different adapters in one batch, each of which takes memory for the largest rank.
_MOST_AT_ONCE: Final = 16


def files(served: Sequence[Served], base: str, root: Path) -> dict[str, str]:
    """`serve.sh` runs from anywhere, and hands on what else it is told."""
    modules = [
        {"name": one.name, "path": str(root / "adapters" / one.folder), "base_model_name": base} for one in served
    ]
    words = ["exec", "vllm", "serve", base]
    if served:
        words += ["--enable-lora", "--max-lora-rank", str(max_rank(served))]
        words += ["--max-loras", str(min(len(served), _MOST_AT_ONCE)), "--lora-modules"]
        words += [json.dumps(one) for one in modules]
    script = f'#!/bin/sh\n{" ".join(map(shlex.quote, words))} "$@"\n'
    return {"serve.sh": script, "lora-modules.json": json.dumps(modules, indent=2) + "\n"}


def max_rank(served: Sequence[Served]) -> int:
    """The least rank that vLLM takes and that has room for all."""
    wanted = max(one.rank for one in served)
    return next((rank for rank in RANKS if rank >= wanted), wanted)
