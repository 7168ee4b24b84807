"""EngineConfig: the engine's share of the settings; sizes in bytes and tokens, times in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graftwork.engine.limited_process import ProcessLimits


@dataclass(frozen=True)
class EngineConfig:
    """The engine's share of the settings; sizes in bytes and tokens, times in seconds."""

    max_context: int
    max_num_seqs: int
    max_num_batched_tokens: int
    inter_token_target_s: float
    batch_wait_s: float
    kv_cache_bytes: int
    prefix_caching: bool
    adapter_cache_bytes: int
    forms: Path
    form_cache_bytes: int
    max_rank: int
    max_waiting: int
    request_timeout_s: float | None
    load_timeout_s: float
    load_retries: int
    load_failure_ttl_s: float
    #: Where it is kept how popular adapters are; None: nothing is brought to memory unasked.
    popularity: Path | None
    use_companions: bool
    template_limits: ProcessLimits
    grammar_limits: ProcessLimits
    tool_format: str
