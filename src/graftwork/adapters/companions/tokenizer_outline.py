"""TokenizerOutline: what the tokenizer that an adapter brings must agree with, and how the two are compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class TokenizerOutline:
    """The base's tokenizer: its tokens by id, and digests of how it splits and merges text."""

    #: None where an id has no token.
    tokens: tuple[str | None, ...]
    #: Of its merge rules, None where its model has none.
    merges: str | None
    #: Of its normaliser and pre-tokeniser: as its file has them, and as transformers loads them.
    pipelines: tuple[str, ...]

    @cached_property
    def id_of(self) -> dict[str, int]:
        """Token to its id."""
        return {token: number for number, token in enumerate(self.tokens) if token is not None}

    @classmethod
    def of(cls, tokens: Mapping[str, int], files: Sequence[Mapping[str, Any]]) -> TokenizerOutline:
        """From the vocabulary and the contents of one or more tokenizer.json that mean the same tokenizer."""
        by_id: list[str | None] = [None] * (max(tokens.values(), default=-1) + 1)
        for token, number in tokens.items():
            by_id[number] = token
        pipelines = {pipeline_digest(file) for file in files}
        return cls(tuple(by_id), merges_digest(files[0]), tuple(sorted(pipelines)))


def merges_digest(tokenizer: Mapping[str, Any]) -> str | None:
    """Of the merge rules of a tokenizer.json, which older files write as `"a b"` and newer ones as `["a", "b"]`."""
    model = tokenizer.get("model")
    merges = model.get("merges") if isinstance(model, Mapping) else None
    if not isinstance(merges, list):
        return None
    return _digest([rule if isinstance(rule, str) else " ".join(map(str, rule)) for rule in merges])


def pipeline_digest(tokenizer: Mapping[str, Any]) -> str:
    """Of what a tokenizer.json does to a text before it looks for tokens."""
    return _digest([tokenizer.get("normalizer"), tokenizer.get("pre_tokenizer")])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
