"""Load a prepared base into memory, once, and check it against itself before it serves."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from graftwork.adapters.outline import Outline
from graftwork.errors import Damaged, Refused
from graftwork.kernels.attention import AttentionRows, page_shapes
from graftwork.kernels.select import Kernels
from graftwork.models.base import PreparedBase, weight_files
from graftwork.models.decoder import Decoder, fits
from graftwork.models.forward_batch import ForwardBatch
from graftwork.models.model import Model
from graftwork.models.survey import dtype_name, read_config, stored_dtypes
from graftwork.models.transformers_model import TransformersModel

#: Largest relative error of our logits against transformers' own run that counts as the same model.
_TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}


def load_model(
    base: PreparedBase,
    kernels: Kernels,
    dtype: torch.dtype,
    max_context: int,
    implementation: Literal["auto", "transformers"] = "auto",
) -> Model:
    """The base in memory in `dtype`, its plain weights freed as they are packed, layer by layer.

    `implementation` is "transformers", or "auto": our own decoder where it fits, else transformers' classes.

    Raises:
        Refused: when weights are missing, when our run does not agree with transformers' own, or when the kernels are
            deterministic and our own decoder does not fit.
        Damaged: when the weights are no longer those the outline was made of.
    """
    module = _read(base, dtype)
    own = implementation == "auto" and fits(module, max_context)
    if kernels.deterministic and not own:
        raise Refused(
            f"The deterministic mode needs our own decoder, which does not run {base.outline.architecture} as this "
            "base is configured. Serve it without `deterministic`."
        )
    probe = [[i % base.outline.vocab_size for i in ids] for ids in ((11, 7, 23, 5, 3, 19), (2, 31, 17, 13))]
    want = _plain_logits(module, probe)
    model: Model = (Decoder if own else TransformersModel)(module, base.outline, kernels, max_context)
    if model.loaded_digest != base.outline.weights_digest and _is_same_set(model, base, dtype):
        raise Damaged(f"The weights in {base.folder} changed since its outline was made. Prepare the base again.")
    _agree(want, _our_logits(model, probe, dtype), dtype, base)
    _return_freed_memory()
    return model


def _is_same_set(model: Model, base: PreparedBase, dtype: torch.dtype) -> bool:
    """Whether what was loaded is, name by name and in one dtype, what the outline's digest was taken over.

    A file may hold more (a tied head, buffers of older versions) or mix dtypes: then the digests differ by right.
    """
    stored = stored_dtypes(weight_files(base.folder))
    return set(stored.values()) == {dtype_name(dtype)} and set(stored) == model.weight_names()


def _read(base: PreparedBase, dtype: torch.dtype) -> PreTrainedModel:
    config = read_config(base.folder)
    transformers_logging.disable_progress_bar()
    try:
        module, info = AutoModelForCausalLM.from_pretrained(
            base.folder, config=config, dtype=dtype, attn_implementation="eager", output_loading_info=True,
            use_safetensors=True, trust_remote_code=False, local_files_only=True,
        )  # fmt: skip
    except (OSError, ValueError, RuntimeError) as error:
        raise Refused(f"The weights in {base.folder} cannot be loaded: {error}") from error
    for kind in ("missing_keys", "mismatched_keys"):
        if wrong := sorted(map(str, info.get(kind, ()))):
            raise Refused(f"The weights in {base.folder} are not whole: {kind} {', '.join(wrong[:5])}.")
    made: PreTrainedModel = module.eval().requires_grad_(False)
    return made


def _return_freed_memory() -> None:
    """Loading frees much in small pieces, a tenth of a small base, which glibc would keep for itself."""
    if os.name == "posix" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        gc.collect()
        trim(0)


@torch.inference_mode()
def _plain_logits(module: PreTrainedModel, probe: list[list[int]]) -> list[Tensor]:
    return [module(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float() for ids in probe]


def _our_logits(model: Model, probe: list[list[int]], dtype: torch.dtype) -> Tensor:
    """The same prompts as one ragged batch through the paged path."""
    lengths = [len(ids) for ids in probe]
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    rows = AttentionRows(starts, np.asarray(lengths, np.int32), np.arange(len(probe), dtype=np.int32).reshape(-1, 1))
    keys, values = _scratch_pages(model.outline, len(probe), dtype)
    batch = ForwardBatch(
        token_ids=torch.tensor([token for ids in probe for token in ids]),
        positions=torch.from_numpy(rows.positions),
        rows=rows,
        keys=keys,
        values=values,
        logits_at=torch.from_numpy(starts[1:].astype(np.int64)) - 1,
        plan=None,
    )
    return model.forward(batch).logits.float()


def _scratch_pages(outline: Outline, pages: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    shape = (pages, outline.num_layers, outline.num_kv_heads)
    keys, values = (torch.zeros(*shape, *one, dtype=dtype) for one in page_shapes(outline.head_dim))
    return keys, values


def _agree(want: list[Tensor], got: Tensor, dtype: torch.dtype, base: PreparedBase) -> None:
    for expected, row in zip(want, got, strict=True):
        error: Any = (row - expected).norm() / expected.norm().clamp_min(1e-6)
        if not error <= _TOLERANCE[dtype]:
            raise Refused(
                f"{base.outline.architecture} gives other logits here than in transformers (relative error "
                f"{float(error):.2g}), so it is not served. Please report the model."
            )
