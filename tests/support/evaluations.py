"""Bodies of evaluations, and the files that belong to them, for tests of every door."""

from __future__ import annotations

import hashlib
from typing import Any

from graftwork.artifacts.stores import BlobStore

LOAD = {"clients": 8, "prompt_tokens": 128, "output_tokens": 64}
WINDOW = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-08T00:00:00Z"}
HISTOGRAM = {"edges": [0, 10, 20], "counts": [3, 5], "above": 1}


def task(value: float = 0.5, *, metric: str = "accuracy", **fields: Any) -> dict[str, Any]:
    """A benchmark with one metric."""
    return {
        "family": "task",
        "name": "sst2",
        "split": "test",
        "dataset": {"id": "stanfordnlp/sst2"},
        "metrics": [{"name": metric, "value": value, "higher_is_better": True}],
        **fields,
    }


def inference(**fields: Any) -> dict[str, Any]:
    return {
        "family": "inference",
        "name": "chat",
        "load": LOAD,
        "hardware": "2 cores",
        "engine": "graftwork 0.1.0",
        "latency_s": {"p50": 0.5, "p99": 1.5},
        "memory_bytes": 1 << 30,
        **fields,
    }


def drift(**fields: Any) -> dict[str, Any]:
    tokens = {"counts": {"the": 7, "é": 2}, "other": 91}
    return {"family": "drift", "name": "baseline", "distributions": {"logprob": HISTOGRAM, "tokens": tokens}, **fields}


def business(value: float = 0.1, **fields: Any) -> dict[str, Any]:
    metrics = [{"name": "conversion", "value": value, "higher_is_better": True}]
    return {"family": "business", "name": "shop", "source": "live", "window": WINDOW, "metrics": metrics, **fields}


ONE_OF_EACH = {"task": task(), "inference": inference(), "drift": drift(), "business": business()}


def put(store: BlobStore, content: bytes, tenant: str = "local") -> str:
    """Store bytes and return their digest."""
    digest = "sha256:" + hashlib.sha256(content).hexdigest()
    store.put(tenant, digest, [content])
    return digest
