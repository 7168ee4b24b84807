"""Telemetry: every metric of the server, on a registry of its own, in base units and with bounded labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

MAX_LABEL_VALUES = 256
OTHER = "other"
_LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

#: Numbers of the engine that only ever grow; the others are gauges.
ENGINE_COUNTERS = frozenset(
    {
        "adapter_loads",
        "adapter_evictions",
        "adapter_load_outcomes",
        "steps",
        "generated_tokens",
        "prompt_tokens",
        "failed_rows",
        "preemptions",
        "prefix_cache_queried_tokens",
        "prefix_cache_hit_tokens",
        "adapter_kernel_launches",
    }
)

#: Numbers of the engine that come by a label; each has few values.
ENGINE_LABELS = {
    "adapter_load_outcomes": "outcome",
    "adapter_tier_bytes": "tier",
    "adapter_memory_bytes": "model",
}

Stats = Callable[[], Mapping[str, object]]
#: Of each live rollout its tenant, route, status, and the share of the keys that each arm has.
Rollouts = Callable[[], Iterable[tuple[str, str, str, Mapping[str, float]]]]


class BoundedLabel:
    """Lets the first `limit` values through and calls the rest `other`: no caller can blow up the metrics."""

    def __init__(self, limit: int = MAX_LABEL_VALUES) -> None:
        self._limit = limit
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        if value not in self._seen:
            if len(self._seen) >= self._limit:
                return OTHER
            self._seen.add(value)
        return value


class _EngineCollector(Collector):
    """Reads the engine's numbers when they are scraped, so that a step never waits for a metric."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterable[Metric]:
        for name, value in self._stats().items():
            if not isinstance(value, int | float | Mapping):
                continue
            label = [ENGINE_LABELS[name]] if isinstance(value, Mapping) else []
            family = CounterMetricFamily if name in ENGINE_COUNTERS else GaugeMetricFamily
            metric = family(f"graftwork_engine_{name}", f"Engine: {name.replace('_', ' ')}.", labels=label)
            for key, one in value.items() if isinstance(value, Mapping) else [(None, value)]:
                metric.add_metric([] if key is None else [str(key)], float(one))
            yield metric


class _RolloutCollector(Collector):
    """Reads where live rollouts stand when they are scraped; of more than `MAX_LABEL_VALUES` only the first."""

    def __init__(self, rollouts: Rollouts) -> None:
        self._rollouts = rollouts

    def collect(self) -> Iterable[Metric]:
        weight = GaugeMetricFamily(
            "graftwork_rollout_weight",
            "Share of the keys that an arm answers, 0 to 1.",
            labels=("tenant", "route", "arm"),
        )
        status = GaugeMetricFamily(
            "graftwork_rollout_status",
            "1 for the status of each live rollout: warming, progressing or paused.",
            labels=("tenant", "route", "status"),
        )
        for tenant, route, now, shares in islice(self._rollouts(), MAX_LABEL_VALUES):
            status.add_metric((tenant, route, now), 1.0)
            for arm, share in shares.items():
                weight.add_metric((tenant, route, arm), share)
        yield from (weight, status)


class Telemetry:
    """The metrics of one server; two servers in one process do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.model_label = BoundedLabel()
        self.http_requests = Counter(
            "graftwork_http_requests_total",
            "Answered HTTP requests.",
            ("door", "status"),
            registry=self.registry,
        )
        self.http_seconds = Histogram(
            "graftwork_http_request_duration_seconds",
            "Time from a request's first byte to its answer's last.",
            ("door",),
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        self.in_progress = Gauge(
            "graftwork_generations_in_progress",
            "Generations, embeddings and classifications that are running or queued.",
            registry=self.registry,
        )
        self.generations = Counter(
            "graftwork_generations_total",
            "Generations by model and how they ended: stop, length, error or cancelled.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.poolings = Counter(
            "graftwork_poolings_total",
            "Embeddings and classifications by model and how they ended: done, error or cancelled.",
            ("model", "outcome"),
            registry=self.registry,
        )
        self.webhook_attempts = Counter(
            "graftwork_webhook_attempts_total",
            "Attempts to send to webhooks, by what the delivery is then: delivered, pending (tried again) or failed.",
            ("status",),
            registry=self.registry,
        )
        self.prompt_tokens = Counter(
            "graftwork_prompt_tokens_total", "Tokens read from prompts.", ("model",), registry=self.registry
        )
        self.completion_tokens = Counter(
            "graftwork_completion_tokens_total", "Tokens generated.", ("model",), registry=self.registry
        )
        self.first_token_seconds = Histogram(
            "graftwork_time_to_first_token_seconds",
            "Time from the request to its first token.",
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        self.token_seconds = Histogram(
            "graftwork_time_per_output_token_seconds",
            "Mean time between the tokens of one answer.",
            buckets=_TOKEN_S,
            registry=self.registry,
        )
        self.pushes = Counter(
            "graftwork_pushes_total",
            "Pushes by outcome: created, unchanged, refused or failed.",
            ("outcome",),
            registry=self.registry,
        )

        self.prediction_records = Counter(
            "graftwork_prediction_records_total",
            "Records of answers: stored, or dropped as the database did not keep up or could not be used.",
            ("outcome",),
            registry=self.registry,
        )

        self.shadow_copies = Counter(
            "graftwork_shadow_copies_total",
            "Copies of requests to versions that shadow others: compared, failed or timed_out; skipped as they cannot "
            "be made, dropped as there was no room or time for them, no_turn where they waited for a place in the "
            "engine when their time was over, or lost as the database could not be used.",
            ("outcome",),
            registry=self.registry,
        )
        self.shadow_waiting = Gauge(
            "graftwork_shadow_copies_waiting", "Copies that wait to be made.", registry=self.registry
        )

    def watch_engine(self, stats: Stats) -> None:
        """Expose the numbers that `stats` gives, read at each scrape; names as the engine has them."""
        self.registry.register(_EngineCollector(stats))

    def watch_rollouts(self, rollouts: Rollouts) -> None:
        """Expose where live rollouts stand, read at each scrape."""
        self.registry.register(_RolloutCollector(rollouts))

    def render(self) -> tuple[bytes, str]:
        """The page of /metrics and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
