"""Pages of keys and values so small that tests can have many, or few."""

from __future__ import annotations

import torch

from graftwork.adapters.outline import Outline
from graftwork.engine.kv_cache import KvCache

OUTLINE = Outline("b", "X", "sha256:0", "float32", 8, 4, 1, 1, 1, 2, 4096, (), (), (), "b")
PAGE_BYTES = 2 * 1 * 2 * 64 * 4


def kv_cache(pages: int) -> KvCache:
    return KvCache(OUTLINE, torch.float32, pages * PAGE_BYTES)
