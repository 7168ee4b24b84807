"""EngineStats: where an engine stands, for people and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graftwork.engine.adapter_loader import LOADED
from graftwork.engine.adapter_tiers import AdapterTiers
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.loop import EngineLoop
from graftwork.engine.residency import by_label
from graftwork.engine.scheduler import Scheduler
from graftwork.kernels.select import Kernels


@dataclass(frozen=True)
class EngineStats:
    """Where the engine stands, for people and metrics. Counts are since the start."""

    running: int
    waiting: int
    kv_pages_used: int
    kv_pages_cached: int
    kv_pages_total: int
    adapters_resident: int
    adapters_pinned: int
    adapter_loads: int
    adapter_evictions: int
    adapter_bytes: int
    #: By how they ended.
    adapter_load_outcomes: Mapping[str, int]
    #: By where they are: in memory, or on disk as forms.
    adapter_tier_bytes: Mapping[str, int]
    #: By version, of those in memory that were used last.
    adapter_memory_bytes: Mapping[str, int]
    steps: int
    generated_tokens: int
    prompt_tokens: int
    failed_rows: int
    preemptions: int
    prefix_cache_queried_tokens: int
    prefix_cache_hit_tokens: int
    adapter_kernel_launches: int
    max_distinct_adapters_in_step: int


def stats_of(
    loop: EngineLoop, scheduler: Scheduler, kv: KvCache, adapters: AdapterTiers, kernels: Kernels
) -> EngineStats:
    """Callable from any thread; what belongs to the loop's may be a step apart."""
    cache, forms = adapters.cache, adapters.forms
    resident, outcomes, counters = cache.in_memory(), adapters.loader.outcomes, loop.counters
    return EngineStats(
        running=loop.num_running,
        waiting=loop.num_waiting,
        kv_pages_used=kv.num_used,
        kv_pages_cached=kv.prefixes.num_idle,
        kv_pages_total=kv.pool.num_pages,
        adapters_resident=len(resident),
        adapters_pinned=sum(one.pins > 0 or one.kept for one in resident.values()),
        adapter_loads=sum(outcomes[way] for way in LOADED),
        adapter_evictions=cache.num_evictions,
        adapter_bytes=cache.used_bytes,
        adapter_load_outcomes=outcomes,
        adapter_tier_bytes={"memory": cache.used_bytes, "form": 0 if forms is None else forms.used_bytes},
        adapter_memory_bytes=by_label(resident.values()),
        steps=counters.steps,
        generated_tokens=counters.generated_tokens,
        prompt_tokens=counters.prompt_tokens,
        failed_rows=counters.failed_rows,
        preemptions=scheduler.num_preemptions,
        prefix_cache_queried_tokens=scheduler.reuse.num_queried,
        prefix_cache_hit_tokens=scheduler.reuse.num_hit,
        adapter_kernel_launches=kernels.launches,
        max_distinct_adapters_in_step=counters.max_distinct_adapters_in_step,
    )
