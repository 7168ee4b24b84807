"""BlockKeys: the names of one row's blocks, equal only where their keys and values are."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from hashlib import blake2b

from graftwork.engine.request import Caller
from graftwork.kernels.attention import PAGE_TOKENS

_BYTES = 32


@dataclass
class BlockKeys:
    """A block is the 64 tokens of one page. Its key is a hash over them and over the key of the block before it.

    NOTE: a chain, so that a key stands for all that keys and values depend on:

        H(base, tenant, salt) ── H(·, block 0) ── H(·, block 1) ── [H(·, adapter, acts_from)] ── H(·, block 2) ── …

    The adapter comes in before the block in which it begins to act: what lies before, the base alone has computed, with
    whichever adapter. Most adapters act from 0 on. Every H is BLAKE2b with 256 bits, so that nobody can make two texts
    of one key.

    Args:
        base: digest of the base's weights.
        adapter: digest of the version or composition, or None.
        caller: whose requests may share.
    """

    base: str
    adapter: str | None
    caller: Caller
    _keys: list[bytes] = field(default_factory=list)

    def of(self, tokens: Tokens[int], count: int, acts_from: int | None) -> list[bytes]:
        """Keys of the first `count` blocks of `tokens`, of which those asked for before have not changed since.

        Args:
            acts_from: position from which the adapter acts; None: nowhere.
        """
        keys = self._keys
        for block in range(len(keys), count):
            before = keys[-1] if keys else _hash(b"", [self.base, self.caller.tenant, self.caller.salt])
            if self.adapter is not None and acts_from is not None and block == acts_from // PAGE_TOKENS:
                before = _hash(before, [self.adapter, acts_from])
            own = array("I", tokens[block * PAGE_TOKENS : (block + 1) * PAGE_TOKENS]).tobytes()
            assert len(own) == PAGE_TOKENS * array("I").itemsize, "only a full block has a key"
            keys.append(blake2b(before + own, digest_size=_BYTES).digest())
        return keys[:count]

    def restart(self) -> None:
        """Forget the keys so far: the row's tokens, or the place from which its adapter acts, are others now."""
        self._keys.clear()


def _hash(before: bytes, words: list[str | int]) -> bytes:
    """Of words, never equal to that of a block, which is of another kind (`person`)."""
    return blake2b(before + json.dumps(words).encode(), digest_size=_BYTES, person=b"words").digest()
