"""What a push stands on, where a test says what is in the files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graftwork.adapters.identity import AdapterIdentity
from graftwork.adapters.outline import Outline
from graftwork.artifacts.bundle import BundleFile, Manifest

IDENTITY = AdapterIdentity("sha256:" + "c" * 64, 16, ("q_proj", "v_proj"), "0.18.0")


def outline(base: str = "tiny") -> Outline:
    return Outline(
        base=base,
        architecture="LlamaForCausalLM",
        weights_digest="sha256:" + "b" * 64,
        dtype="float32",
        vocab_size=16,
        hidden_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        max_context=32,
        linears=(),
        modules=(),
        ties=(),
        source=base,
    )


@dataclass(frozen=True)
class FakeAccount:
    """An account that says what the test wants."""

    ok: bool = True
    kind: str | None = "lora"
    problems: Sequence[str] = ()
    rank: int = 8
    bytes: int = 7

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "problems": list(self.problems)}


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def manifest_of(files: dict[str, bytes]) -> Manifest:
    return Manifest(tuple(BundleFile(path, len(data), digest_of(data)) for path, data in files.items()))
