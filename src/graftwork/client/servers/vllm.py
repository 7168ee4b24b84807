"""vLLM's OpenAI server: a script that starts it with every adapter, and the list of them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from graftwork.client.servers.served import Served

#: What `--max-lora-rank` may be.
RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)
#: Different adapters in one batch, each of which takes memory for the largest rank.
_MOST_AT_ONCE: Final = 16
#: Where the script lies, and the same as it stands in a text of JSON.
_HERE: Final = r"""here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd) || exit 1
here=$(printf '%s' "$here" | sed 's/[\\"]/\\&/g')"""


def files(served: Sequence[Served], base: str, root: Path) -> dict[str, str]:
    """`serve.sh` runs from anywhere, wherever the folder is moved to, and hands on what else it is told. The list of
    adapters says where they are in the folder.
    """
    modules = [{"name": one.name, "base_model_name": base, "path": f"adapters/{one.folder}"} for one in served]
    words = ["exec", "vllm", "serve", base]
    if served:
        words += ["--enable-lora", "--max-lora-rank", str(max_rank(served))]
        words += ["--max-loras", str(min(len(served), _MOST_AT_ONCE)), "--lora-modules"]
    quoted = [*map(shlex.quote, words), *map(_module, modules)]
    script = f'#!/bin/sh\n{_HERE}\n{" ".join(quoted)} "$@"\n'
    return {"serve.sh": script, "lora-modules.json": json.dumps(modules, indent=2) + "\n"}


def _module(one: Mapping[str, str]) -> str:
    """A word for a shell: the JSON of an adapter, which lies below `$here`."""
    known = json.dumps({name: value for name, value in one.items() if name != "path"}).removesuffix("}")
    return shlex.quote(f'{known}, "path": "') + '"$here"' + shlex.quote(f'/{one["path"]}"}}')


def max_rank(served: Sequence[Served]) -> int:
    """The least rank that vLLM takes and that has room for all."""
    wanted = max(one.rank for one in served)
    return next((rank for rank in RANKS if rank >= wanted), wanted)
