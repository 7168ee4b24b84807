"""fingerprint: which data was trained on, by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def fingerprint(dataset: Any) -> str | None:
    """`datasets:…`, the fingerprint of a Hugging Face dataset; else `sha256:…` over its examples, in order.

    It reads every example of a dataset without a fingerprint. None where that cannot be done: the dataset has no
    length (a stream), or holds something beside numbers, texts, lists, mappings, arrays and tensors.
    """
    if isinstance(made := getattr(dataset, "_fingerprint", None), str):
        return f"datasets:{made}"
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        return None
    digest = hashlib.sha256()
    try:
        for index in range(len(dataset)):
            for part in _parts(dataset[index]):
                digest.update(part)
    except (TypeError, ValueError, LookupError):
        return None
    return f"sha256:{digest.hexdigest()}"


def _parts(value: Any) -> Iterator[bytes]:
    """The bytes of a value; those of no two different values are the same."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().tolist()
    elif hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        yield b"{%d\n" % len(value)
        for key in sorted(value):
            yield from _parts(key)
            yield from _parts(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield b"[%d\n" % len(value)
        for item in value:
            yield from _parts(item)
    elif value is None or isinstance(value, str | int | float):
        yield json.dumps(value).encode() + b"\n"
    else:
        raise TypeError(f"{type(value).__name__} has no bytes that are the same each time")
