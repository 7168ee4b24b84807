"""Create an engine from settings: the base in memory, its tokenizer, its kernels."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from graftwork.engine.adapter_source import AdapterSource
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.engine_config import EngineConfig
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.memory_need import memory_need, memory_of_this_machine
from graftwork.engine.text import Text
from graftwork.kernels.select import kernels_for
from graftwork.models.base import PreparedBase
from graftwork.models.load import load_model
from graftwork.process import usable_cores
from graftwork.settings import Settings

#: Called with what is done next.
Stage = Callable[[str], None]


def create_engine(
    settings: Settings, base: PreparedBase, source: AdapterSource, stage: Stage = lambda what: None
) -> AsyncEngine:
    """Load the base and make an engine that is ready to `start`. Blocks for seconds; the first time for a minute.

    Args:
        stage: told what is done next.

    Raises:
        Refused: when the base cannot be served, or needs more memory than there is; the latter before it is loaded.
        Damaged: when the base's weights changed.
    """
    dtype = serving_dtype(settings, base)
    memory_need(settings, base, dtype).check(memory_of_this_machine())
    kernels = kernels_for("cpu-deterministic" if settings.deterministic else "cpu")
    kernels.set_threads(settings.threads or compute_threads())
    stage("readying the kernels, which are compiled the first time: half a minute")
    kernels.warm(dtype)
    stage("loading the weights")
    context = min(settings.max_model_len or base.outline.max_context, base.outline.max_context)
    model = load_model(base, kernels, dtype, context, settings.model_impl)
    return AsyncEngine(
        model,
        kernels,
        Text.open(base.folder, vocab_size=base.outline.vocab_size),
        source,
        _config(settings, context),
    )


def serving_dtype(settings: Settings, base: PreparedBase) -> torch.dtype:
    """As set, else the base's own where the processor multiplies bfloat16 itself, else float32."""
    if settings.dtype != "auto":
        return torch.float32 if settings.dtype == "float32" else torch.bfloat16
    fast = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if fast and base.outline.dtype == "bfloat16" else torch.float32


def compute_threads() -> int:
    """What torch finds, which is one per physical core or OMP_NUM_THREADS; a container's quota may be less."""
    found = torch.get_num_threads()
    return found if "OMP_NUM_THREADS" in os.environ else min(found, usable_cores())


def _config(settings: Settings, context: int) -> EngineConfig:
    return EngineConfig(
        max_context=context,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        inter_token_target_s=settings.inter_token_target_ms / 1000,
        batch_wait_s=settings.batch_wait_ms / 1000,
        kv_cache_bytes=settings.kv_cache_bytes,
        prefix_caching=settings.prefix_caching,
        adapter_cache_bytes=settings.adapter_cache_bytes,
        forms=settings.forms,
        form_cache_bytes=settings.form_cache_bytes,
        max_rank=settings.max_rank,
        max_waiting=settings.max_waiting,
        request_timeout_s=settings.request_timeout_s,
        load_timeout_s=settings.load_timeout_s,
        load_retries=settings.load_retries,
        load_failure_ttl_s=settings.load_failure_ttl_s,
        popularity=settings.popularity if settings.prefetch else None,
        use_companions=settings.adapter_companions,
        template_limits=ProcessLimits(settings.template_timeout_s, settings.template_memory_bytes),
        grammar_limits=ProcessLimits(settings.grammar_timeout_s, settings.grammar_memory_bytes),
        tool_format=settings.tool_format,
    )
