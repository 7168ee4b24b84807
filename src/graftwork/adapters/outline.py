"""Outline: what an adapter needs to know of a base model, without its weights and without torch.

`models/prepare.py` writes it once as `outline.json` beside the base; the account of a push reads nothing else of the
base. The weights digest is over sorted (name, dtype, shape, bytes), never over file bytes, so that re-sharding a
checkpoint does not change the base's identity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from graftwork.adapters.companions.tokenizer_outline import TokenizerOutline

FORMAT = 3
FILE_NAME = "outline.json"


@dataclass(frozen=True)
class LinearSite:
    """One linear layer of the base that an adapter may target; `weight` is `[out_features, in_features]`."""

    path: str
    in_features: int
    out_features: int
    bias: bool


@dataclass(frozen=True)
class EmbedSite:
    """The token embedding; `weight` is `[vocab_size, hidden_size]`, its output is multiplied by `scale`."""

    path: str
    scale: float = 1.0


@dataclass(frozen=True)
class BlockSite:
    """One decoder layer, `x → x + attention(norm(x)) → x + mlp(norm(x))`, by the paths of its blocks and norms."""

    path: str
    attention: str
    attention_norm: str
    mlp: str
    mlp_norm: str


@dataclass(frozen=True)
class Outline:
    """The named, measured skeleton of one base model."""

    base: str
    architecture: str
    weights_digest: str
    dtype: str
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_context: int
    linears: tuple[LinearSite, ...]
    #: Every module path, so that a refusal can say whether a target is unknown or merely not a linear layer.
    modules: tuple[str, ...]
    #: Groups of parameter names that are one tensor, e.g. `("lm_head.weight", "model.embed_tokens.weight")`.
    ties: tuple[tuple[str, ...], ...]
    #: Where the base came from: folder or hub id, and revision; compared with an adapter's own claim, never fetched.
    source: str
    revision: str | None = None
    #: Token embedding and output head; None where an adapter cannot act on it.
    embed: EmbedSite | None = None
    head: LinearSite | None = None
    #: Decoder layers in order; empty where they are not built so that an adapter can act on whole blocks.
    blocks: tuple[BlockSite, ...] = ()
    #: What an adapter's own tokenizer must agree with; None where the base has none.
    tokenizer: TokenizerOutline | None = None
    format: int = FORMAT

    @cached_property
    def site_of(self) -> dict[str, int]:
        """Module path to its index in `linears`."""
        return {site.path: index for index, site in enumerate(self.linears)}

    @property
    def tied(self) -> bool:
        """Whether embedding and head are one tensor."""
        return any(self.head is not None and f"{self.head.path}.weight" in group for group in self.ties)

    def save(self, folder: Path) -> None:
        text = json.dumps(asdict(self), indent=1)
        (folder / FILE_NAME).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Outline | None:
        """The outline beside a base, or None where there is none of this format."""
        try:
            data = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if data.get("format") != FORMAT:
            return None
        data["linears"] = tuple(LinearSite(**site) for site in data["linears"])
        data["blocks"] = tuple(BlockSite(**block) for block in data["blocks"])
        data["embed"] = EmbedSite(**data["embed"]) if data["embed"] else None
        data["head"] = LinearSite(**data["head"]) if data["head"] else None
        if data["tokenizer"]:
            told = data["tokenizer"]
            data["tokenizer"] = TokenizerOutline(tuple(told["tokens"]), told["merges"], tuple(told["pipelines"]))
        data["modules"] = tuple(data["modules"])
        data["ties"] = tuple(tuple(group) for group in data["ties"])
        return cls(**data)


def weights_digest(tensors: Iterable[tuple[str, str, tuple[int, ...], memoryview]]) -> str:
    """`sha256:…` over tensors given *sorted by name* as (name, dtype, shape, little-endian bytes)."""
    digest = hashlib.sha256()
    for name, dtype, shape, data in tensors:
        digest.update(f"{name}\0{dtype}\0{','.join(map(str, shape))}\0".encode())
        digest.update(data)
    return f"sha256:{digest.hexdigest()}"
