"""Engine: registry and engine in a process of your own, without HTTP, an account or a thread to look after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from graftwork.access.tenants import LOCAL
from graftwork.adapters.account import account_folder
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.stores import load_store
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Database
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.create import create_engine
from graftwork.engine.request import AdapterHandle, ChatPrompt, Delta, GenerationRequest, Prompt
from graftwork.engine.sampling_params import SamplingParams
from graftwork.errors import InvalidRequest
from graftwork.models.prepare import prepare_base
from graftwork.registry.push import PushService
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import SnapshotReader
from graftwork.registry.version_files import VersionFiles
from graftwork.registry.versions import Version
from graftwork.settings import Settings
from graftwork.traffic.choice import Asked, Decision, choose, require_base

_CHUNK_BYTES = 1 << 20

#: A chat of one user message, a whole chat, or token ids to continue.
Input = str | Sequence[Mapping[str, Any]] | Sequence[int]


@dataclass(frozen=True)
class Answer:
    """A whole answer and who gave it: `model` is `name:1.4.0`, or the base's name."""

    text: str
    model: str
    digest: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Engine:
    """One base in memory and the versions of one registry; use it from one thread.

    Keyword arguments are those of `Settings`; what is not given comes from the environment, as for the server.

    Raises:
        Refused: when the base cannot be served.

    Example:
        >>> with Engine(base="smollm2-135m") as engine:  # doctest: +SKIP
        ...     engine.push("examples/adapters/sentiment", "sentiment")
        ...     print(engine.generate("I loved every minute.", adapter="sentiment").text)
    """

    def __init__(self, base: str | None = None, **settings: Any) -> None:
        self.settings = Settings(**(settings if base is None else {**settings, "base": base}))
        prepared = prepare_base(self.settings)
        self.base = prepared.name
        with ExitStack() as stack:
            database = stack.enter_context(Database(self.settings.database_url))
            self.registry = Registry(database)
            self._snapshots = SnapshotReader(database)
            self._store = load_store("local")(self.settings.artifacts)
            copies = WorkingCopies(self.settings.bundles, self._store)
            account_of = partial(account_folder, outline=prepared.outline, max_rank=self.settings.max_rank)
            self._pushes = PushService(self.registry, self._store, copies, lambda: prepared.outline, account_of)
            self._runner = stack.enter_context(asyncio.Runner())
            self._engine: AsyncEngine = create_engine(self.settings, prepared, VersionFiles(self._snapshots, copies))
            self._runner.run(self._engine.start())
            stack.callback(lambda: self._runner.run(self._engine.stop()))
            self._closing = stack.pop_all()

    def push(self, folder: str | Path, reference: str, *, metadata: Mapping[str, Any] | None = None) -> Version:
        """Register the files of `folder` as a version of `NAME[:SEMVER]`; the same bytes give the same version.

        Raises:
            InvalidRequest, Conflict, Refused: as `graftwork push`.
        """
        name, _, semver = reference.partition(":")
        manifest = Manifest.of_folder(Path(folder))
        for file in manifest.files:
            self._store.put(LOCAL, file.digest, _chunks(Path(folder) / file.path))
        return self._pushes.push(LOCAL, name, manifest, semver=semver or None, metadata=metadata, actor=LOCAL).version

    def generate(self, prompt: Input, *, adapter: str | None = None, **params: Any) -> Answer:
        """The whole answer; `params` are the fields of `SamplingParams`, and `companions`.

        `companions="base"` leaves aside the chat template, tokens and defaults that the adapter may carry.

        Raises:
            UnknownModel, InvalidRequest, Refused, Unavailable, GenerationFailed: as the server answers.
        """
        return self.generate_all([(prompt, adapter)], **params)[0]

    def generate_all(self, prompts: Sequence[tuple[Input, str | None]], **params: Any) -> list[Answer]:
        """Answers to several (prompt, adapter) pairs, batched together whatever their adapters."""
        requests = [self._request(prompt, adapter, params) for prompt, adapter in prompts]

        async def gather() -> list[Answer]:
            tasks = [asyncio.create_task(self._whole(request, by)) for request, by in requests]
            try:
                return list(await asyncio.gather(*tasks))
            finally:  # one failure ends them all
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        return self._runner.run(gather())

    def stream(self, prompt: Input, *, adapter: str | None = None, **params: Any) -> Generator[str]:
        """The answer's text as it comes; closing the iterator ends the generation."""
        request, _ = self._request(prompt, adapter, params)
        deltas = self._engine.generate(request)
        try:
            while (delta := self._runner.run(_next(deltas))) is not None:
                if delta.text:
                    yield delta.text
        finally:
            self._runner.run(deltas.aclose())

    def close(self) -> None:
        """Stop the engine and let go of the registry."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _whole(self, request: GenerationRequest, decision: Decision) -> Answer:
        text, last = "", None
        async with aclosing(self._engine.generate(request)) as deltas:
            async for delta in deltas:
                text, last = text + delta.text, delta
        assert last is not None and last.finish_reason is not None, "an answer ends with a reason"
        digest = decision.version.digest if decision.version else self._engine.outline.weights_digest
        return Answer(text, decision.model, digest, last.finish_reason, last.prompt_tokens, last.completion_tokens)

    def _request(
        self, prompt: Input, adapter: str | None, params: Mapping[str, Any]
    ) -> tuple[GenerationRequest, Decision]:
        snapshot, outline = self._snapshots.current(), self._engine.outline
        decision = choose(Asked(adapter_id=adapter), tenant=LOCAL, base=self.base, versions=snapshot)
        require_base(decision, base=self.base, base_digest=outline.weights_digest)
        version = decision.version
        handle = AdapterHandle(version.digest, LOCAL, decision.model) if version is not None else None
        asked = dict(params)
        own = _use_own(asked.pop("companions", "adapter"))
        if handle is not None and own:
            asked = self._runner.run(self._engine.companions(handle)).defaults.sampling() | asked
        request = GenerationRequest(
            secrets.token_hex(8), _prompt(prompt), SamplingParams(**asked), handle, companions=own
        )
        return request, decision


def _use_own(companions: object) -> bool:
    if companions not in ("adapter", "base"):
        raise InvalidRequest(f"companions is {companions!r}; it must be 'adapter' or 'base'.", field="companions")
    return companions == "adapter"


async def _next(deltas: AsyncGenerator[Delta]) -> Delta | None:
    return await anext(deltas, None)


def _prompt(given: Input) -> Prompt:
    if isinstance(given, str):
        return ChatPrompt(({"role": "user", "content": given},))
    items = () if isinstance(given, bytes | bytearray) else tuple(given)
    if not items:
        raise InvalidRequest("The prompt is empty, or not text.", field="prompt")
    if all(isinstance(item, Mapping) for item in items):
        return ChatPrompt(tuple(item for item in items if isinstance(item, Mapping)))
    if all(type(item) is int for item in items):
        return tuple(item for item in items if isinstance(item, int))
    raise InvalidRequest("A prompt is a text, a list of messages, or a list of token ids.", field="prompt")


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk
