"""FormBlob: a form's image as the bytes of a file, checked, and back.

    8 bytes magic · 4 bytes CRC-32 of all that follows · 4 bytes length of the header · header, JSON · zeros to a
    multiple of 64 · the image's bytes

The header says what the form was made of (its key) and where in the image everything is. Nothing of it is run: parts
are named by class and plain fields, and only classes of adapter kinds are looked up.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from graftwork.adapters.part_record import part_of, record_of
from graftwork.adapters.serving_form import Traits
from graftwork.engine.form_head import HEAD, MAGIC
from graftwork.engine.form_image import ALIGN, VECTORS, FormImage, Numbers, Piece, weights_within

#: Raise it whenever a kind makes another form of the same files, or a blob is laid out in another way.
FORM_FORMAT = 1

_CHECKED_FROM = 12
_TRAITS = TypeAdapter(Traits)

Key = Mapping[str, Any]


def blob_of(image: FormImage, key: Key) -> tuple[bytes, bytes, memoryview] | None:
    """The bytes of a blob, to be written one after another; None where a part cannot be described."""
    records = [(record_of(part), dict(pieces)) for part, pieces in image.parts]
    if any(record is None for record, _ in records):
        return None
    header = json.dumps({
        "key": key,
        "bytes": len(image.data),
        "slices": image.slices.tolist(),
        "vectors": {name: image.vectors[name].tolist() for name in VECTORS},
        "pieces": [(piece.offset, piece.shape, _name(piece.dtype)) for piece in image.pieces],
        "parts": records,
        "traits": _TRAITS.dump_python(image.traits, mode="json"),
    }).encode()  # fmt: skip
    header += b"\0" * (-(HEAD.size + len(header)) % ALIGN)
    data = memoryview(image.data.numpy().data)
    checked = zlib.crc32(data, zlib.crc32(header, zlib.crc32(struct.pack("<I", len(header)))))
    return HEAD.pack(MAGIC, checked, len(header)), header, data


def image_in(mapped: mmap.mmap, key: Key, dtype: torch.dtype, widths: Numbers) -> FormImage:
    """The image in a mapped blob, as views of it; `widths` [sites, 2] are those of each linear layer, in and out.

    Raises:
        ValueError, LookupError, TypeError, ImportError, RuntimeError: when it is damaged, or of another key.
    """
    view = memoryview(mapped)
    if len(view) < HEAD.size:
        raise ValueError("it is cut off")
    magic, checked, length = HEAD.unpack(view[: HEAD.size])
    begin = HEAD.size + length
    if magic != MAGIC or zlib.crc32(view[_CHECKED_FROM:]) != checked:
        raise ValueError("its checksum does not fit")
    header = json.loads(bytes(view[HEAD.size : begin]).rstrip(b"\0"))
    if header["key"] != key or header["bytes"] != len(view) - begin:
        raise ValueError("it is of something else")
    data = torch.frombuffer(mapped, dtype=torch.uint8)[begin:]
    pieces = tuple(Piece(offset, (rows, columns), _dtype(name)) for offset, (rows, columns), name in header["pieces"])
    weights = weights_within(data, pieces)
    image = FormImage(
        data,
        dtype,
        np.array(header["slices"], np.int64).reshape(4, -1),
        {name: np.array(header["vectors"][name], np.int64).reshape(2, -1) for name in VECTORS},
        pieces,
        tuple((part_of(one, {name: weights[at] for name, at in own.items()}), own) for one, own in header["parts"]),
        _TRAITS.validate_python(header["traits"]),
    )
    _check_inside(image, widths)
    return image


def _check_inside(image: FormImage, widths: Numbers) -> None:
    """Kernels read wherever the tables point: nothing may lie outside."""
    sites, ranks, a, b = image.slices
    spans = [(a, ranks * widths[sites, 0] * image.dtype.itemsize), (b, ranks * widths[sites, 1] * image.dtype.itemsize)]
    for name, side in zip(VECTORS, (0, 1, 1), strict=True):
        where, begin = image.vectors[name]
        spans.append((begin, widths[where, side] * 4))
    for begin, size in spans:
        if ((begin < 0) | (size < 0) | (begin + size > len(image.data))).any():
            raise ValueError("a tensor lies outside of it")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name} is no dtype")
    return found
