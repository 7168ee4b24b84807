"""Public fakes: an engine without a model, and small adapters for it; for your tests and for ours."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from graftwork.adapters.companions.companions import NO_COMPANIONS, Companions
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.artifacts.disk_budget import Kept
from graftwork.engine.request import (
    AdapterHandle,
    ChatPrompt,
    Delta,
    GenerationRequest,
    Pooled,
    PoolingRequest,
    Prompt,
    TokenLogprob,
    TopLogprob,
)
from graftwork.engine.residency import Residency
from graftwork.engine.tool_formats import TOOL_FORMATS, ToolFormat
from graftwork.errors import Conflict, Damaged, InvalidRequest, Refused

FAKE_BASE = "fake-base"
_PARTS = ("q_proj", "v_proj")


def fake_outline(*, base: str = FAKE_BASE, layers: int = 2, width: int = 8, max_context: int = 256) -> Outline:
    """The outline of a base that exists nowhere else."""
    paths = [f"model.layers.{layer}.self_attn.{part}" for layer in range(layers) for part in _PARTS]
    return Outline(
        base=base,
        architecture="LlamaForCausalLM",
        weights_digest="sha256:" + "0" * 64,
        dtype="float32",
        vocab_size=100,
        hidden_size=width,
        num_layers=layers,
        num_heads=2,
        num_kv_heads=2,
        head_dim=width // 2,
        max_context=max_context,
        linears=tuple(LinearSite(path, width, width, bias=False) for path in paths),
        modules=tuple(paths),
        ties=(),
        source=f"fake/{base}",
    )


def write_lora(folder: Path, outline: Outline, *, rank: int = 4, seed: int = 0, layers: int | None = None) -> Path:
    """A PEFT folder with a random LoRA on every linear site of `outline` (or of its first `layers` only)."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    tensors = {}
    for site in outline.linears[: None if layers is None else layers * len(_PARTS)]:
        for part, shape in (("lora_A", (rank, site.in_features)), ("lora_B", (site.out_features, rank))):
            weights = (0.1 * random.standard_normal(shape)).astype(np.float32)
            tensors[f"base_model.model.{site.path}.{part}.weight"] = weights
    save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": outline.source,
        "r": rank,
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted({site.path.rsplit(".", 1)[-1] for site in outline.linears}),
    }
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class FakeStats:
    """What a FakeEngine counts."""

    running: int
    generated_tokens: int
    max_distinct_adapters_in_step: int


@dataclass
class FakeEngine:
    """Answers `<label> says: <last prompt>` word by word, or what `answers` has for that prompt.

    The label is the adapter's, or the base's name.

    A prompt that is pooled becomes 1, 2, 3 … times its number of tokens, negative with an adapter.

    It keeps what it was asked (`requests`, `poolings`), what was closed early (`aborted`), what was loaded (`loaded`),
    pinned (`pinned`, by digest) and told (`retried`, `anticipated`). Its memory holds as many adapters as one likes.
    """

    outline: Outline = field(default_factory=fake_outline)
    #: Raised instead of an answer to requests of this label.
    failures: dict[str, Exception] = field(default_factory=dict)
    #: What adapters carry beside their weights, by label.
    companions_of: dict[str, Companions] = field(default_factory=dict)
    #: What it says to these prompts.
    answers: dict[str, str] = field(default_factory=dict)
    #: What it says under these labels, whatever it is asked.
    answers_of: dict[str, str] = field(default_factory=dict)
    #: Words after which the failures strike; 0 is before the first.
    fail_after: int = 0
    #: Seconds that each word of this label takes; inf: it hangs.
    delays: dict[str, float] = field(default_factory=dict)
    #: Words after which an answer waits for `gate`; None never waits.
    pause_after: int | None = None
    #: The same for answers under these labels alone.
    pauses_of: dict[str, int] = field(default_factory=dict)
    #: Labels whose answers have given way to others, as far as they pause.
    behind: set[str] = field(default_factory=set)
    ready: bool = False
    #: Classes of the adapter with this label: its head.
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    #: Tokens that it says to have found of every prompt, as far as that is as long.
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        self.requests: list[GenerationRequest] = []
        self.poolings: list[PoolingRequest] = []
        self.loaded: list[AdapterHandle] = []
        self.aborted: list[str] = []
        self.pinned: set[str] = set()
        self.retried: list[str] = []
        self.anticipated: list[tuple[str, AdapterHandle]] = []
        self._resident: dict[str, AdapterHandle] = {}
        self._failed: dict[str, Residency] = {}
        self.gate = asyncio.Event()
        self._running: dict[str, str] = {}
        self._most_adapters = 0
        self._generated = 0

    async def start(self) -> None:
        self.ready = True

    async def stop(self) -> None:
        self.ready = False

    async def load(self, handle: AdapterHandle, *, pin: bool = False, wait_s: float | None = None) -> bool:
        if (failure := self.failures.get(handle.label)) is not None:
            if isinstance(failure, Refused | Damaged):  # another attempt would fail too
                self._failed[handle.digest] = Residency(handle.tenant, handle.label, "failed", error=failure)
            raise failure
        self._failed.pop(handle.digest, None)
        self.loaded.append(handle)
        if wait_s == 0 and handle.digest not in self._resident:
            return False
        self._resident[handle.digest] = handle
        if pin:
            self.pinned.add(handle.digest)
        return True

    def unpin(self, handle: AdapterHandle) -> None:
        self.pinned.discard(handle.digest)

    async def unload(self, handle: AdapterHandle, *, wait_s: float = 10.0, disk: bool = False) -> int:
        if handle.digest in self.pinned:
            raise Conflict(f"{handle.label} is pinned in memory, by name or for a rollout; unpin it first.")
        rows = sum(digest == handle.digest for digest in self._running.values())
        if not rows:
            self._resident.pop(handle.digest, None)
        return rows

    def retry(self, digest: str) -> None:
        self._failed.pop(digest, None)
        self.retried.append(digest)

    def moved(self, before: str, after: AdapterHandle) -> None:
        self.anticipated.append((before, after))

    def residency(self) -> Mapping[str, Residency]:
        rows = Counter(self._running.values())
        return self._failed | {
            digest: Residency(one.tenant, one.label, "resident", 1, digest in self.pinned, rows[digest])
            for digest, one in self._resident.items()
        }

    def form_on_disk(self, handle: AdapterHandle) -> Kept | None:
        return None

    async def companions(self, handle: AdapterHandle) -> Companions:
        return self.companions_of.get(handle.label, NO_COMPANIONS)

    async def tool_format(self, adapter: AdapterHandle | None, *, own: bool) -> ToolFormat:
        return TOOL_FORMATS["hermes"]

    @property
    def loaded_digest(self) -> str:
        return self.outline.weights_digest

    async def weights_digest(self) -> str:
        return self.outline.weights_digest

    def waits(self, request_id: str) -> bool:
        asked = (one.adapter for one in self.requests if one.id == request_id and one.id in self._running)
        return any(one is not None and one.label in self.behind for one in asked)

    def stats(self) -> FakeStats:
        return FakeStats(len(self._running), self._generated, self._most_adapters)

    async def generate(self, request: GenerationRequest) -> AsyncGenerator[Delta, None]:
        """One word per step."""
        self.requests.append(request)
        label = request.adapter.label if request.adapter else self.outline.base
        length = _length(request.prompt)
        if length >= self.outline.max_context:
            raise InvalidRequest(
                f"The prompt has {length} tokens; the context holds {self.outline.max_context}.",
                field="prompt",
            )
        asked = _text(request.prompt)
        said = self.answers.get(asked, f"{label} says: {asked}")
        words = self.answers_of.get(label, said).split(" ")
        usual = min(request.usual_tokens or len(words), request.most_tokens or len(words))
        words = words[: usual if request.params.max_tokens is None else request.params.max_tokens]
        pieces: list[str | None] = [word if index == 0 else f" {word}" for index, word in enumerate(words)] or [None]
        self._running[request.id] = request.adapter.digest if request.adapter else ""
        self._most_adapters = max(self._most_adapters, len(set(self._running.values()) - {""}))
        finished = False
        try:
            for index, piece in enumerate(pieces):
                await self._step(index, label)
                yield self._delta(request, index, piece, last=index + 1 == len(pieces), prompt_tokens=length)
            finished = True
        finally:
            del self._running[request.id]
            if not finished:
                self.aborted.append(request.id)

    async def pool(self, request: PoolingRequest) -> Pooled:
        """After one step."""
        self.poolings.append(request)
        label = request.adapter.label if request.adapter else self.outline.base
        length, classes = _length(request.prompt), request.pooling == "classes"
        labels = self.labels.get(label, ()) if classes else ()
        if classes and not labels:
            raise InvalidRequest(f"{label} has no classification head.", field="model")
        if not length:
            raise InvalidRequest("The prompt is empty.", field="prompt")
        try:
            await self._step(0, label)
        except asyncio.CancelledError:
            self.aborted.append(request.id)
            raise
        sign = -1 if request.adapter else 1
        values = (
            float(sign * length * place) for place in range(1, 1 + len(labels or range(self.outline.hidden_size)))
        )
        return Pooled(tuple(values), length, labels)

    async def _step(self, index: int, label: str) -> None:
        await asyncio.sleep(self.delays.get(label, 0))
        pause = self.pauses_of.get(label, self.pause_after)
        if pause is not None and index >= pause:
            await self.gate.wait()
        if label in self.failures and index >= self.fail_after:
            raise self.failures[label]

    def _delta(
        self, request: GenerationRequest, index: int, piece: str | None, *, last: bool, prompt_tokens: int
    ) -> Delta:
        """One step's word; None is a prompt without an answer."""
        params, ids = request.params, () if piece is None else (index,)
        self._generated += len(ids)
        count = index + len(ids)
        text, first = piece or "", index == 0
        logprobs: tuple[TokenLogprob, ...] = ()
        if params.logprobs is not None and piece is not None:
            logprobs = (_logprob(index, piece, params.logprobs),)
        if first and params.echo:
            text = _text(request.prompt) + text
            if params.logprobs is not None:
                logprobs = _prompt_logprobs(request.prompt, params.logprobs) + logprobs
        asked = params.prompt_logprobs if first else None
        return Delta(
            text=text,
            token_ids=ids,
            logprobs=logprobs,
            finish_reason=("length" if count == params.max_tokens else "stop") if last else None,
            prompt_tokens=prompt_tokens,
            completion_tokens=count,
            prompt_logprobs=None if asked is None else _prompt_logprobs(request.prompt, asked),
            cached_tokens=min(self.cached_tokens, prompt_tokens),
        )


def _prompt_logprobs(prompt: Prompt, alternatives: int) -> tuple[TokenLogprob, ...]:
    between = "," if isinstance(prompt, tuple) else " "
    *others, last = _text(prompt).split(between)
    words = [*(other + between for other in others), last]
    rated = [replace(_logprob(index, word, alternatives), rank=1) for index, word in enumerate(words)]
    return (replace(rated[0], logprob=None, rank=None, top=()), *rated[1:])


def _logprob(index: int, text: str, alternatives: int) -> TokenLogprob:
    raw = tuple(text.encode())
    others = [TopLogprob(99 - rank, f"~{rank}", (126, 48 + rank % 10), -1.0 - rank) for rank in range(1, alternatives)]
    top = (TopLogprob(index, text, raw, -0.5), *others)[:alternatives]
    return TokenLogprob(index, text, raw, -0.5, top)


def _text(prompt: Prompt) -> str:
    if isinstance(prompt, ChatPrompt):
        return str(prompt.messages[-1]["content"])
    return prompt if isinstance(prompt, str) else ",".join(map(str, prompt))


def _length(prompt: Prompt) -> int:
    if isinstance(prompt, ChatPrompt):
        return sum(len(str(message["content"]).split()) for message in prompt.messages)
    return len(prompt.split()) if isinstance(prompt, str) else len(prompt)
