"""Engine: registry and engine in a process of your own, without HTTP, an account or a thread to look after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Coroutine, Generator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from graftwork.access.tenants import LOCAL
from graftwork.adapters.account import account_folder
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.packages.piece import Pieces
from graftwork.artifacts.stores import open_store
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.client.importing import check_signatures, metadata_of, named
from graftwork.client.pushes import pieces_below
from graftwork.client.sources import opened
from graftwork.db import Database
from graftwork.embedded.answer import Answer
from graftwork.embedded.question import Adapter, Input, read_adapter, read_prompt, read_wishes
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.create import create_engine
from graftwork.engine.grammar import Grammar
from graftwork.engine.pooled import probabilities, vector
from graftwork.engine.request import (
    AdapterHandle,
    Delta,
    GenerationRequest,
    Pooled,
    Pooling,
    PoolingRequest,
)
from graftwork.engine.residency import Residency
from graftwork.engine.sampling_params import SamplingParams
from graftwork.errors import InvalidRequest, NotFound, Unavailable
from graftwork.models.base import PreparedBase
from graftwork.models.base_identity import identify_base
from graftwork.models.prepare import prepare_base
from graftwork.protocol.structured import AnswerForm, form_of
from graftwork.registry.bases import Bases
from graftwork.registry.lifecycle import Lifecycle
from graftwork.registry.push import PushService
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import SnapshotReader
from graftwork.registry.version_files import VersionFiles
from graftwork.registry.versions import Version
from graftwork.settings import Settings
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Decision
from graftwork.traffic.handle import handle_of
from graftwork.traffic.servable import require_servable

T = TypeVar("T")


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
            database = stack.enter_context(Database(self.settings.database))
            self.registry, self.lifecycle = Registry(database), Lifecycle(database)
            self._snapshots = SnapshotReader(database)
            self._store = open_store(self.settings.artifacts, self.settings.artifacts_keyring)
            copies = WorkingCopies(self.settings.bundles, self._store, self.settings.bundle_cache_bytes)
            account_of = partial(account_folder, outline=prepared.outline, max_rank=self.settings.max_rank)
            self._pushes = PushService(
                self.registry,
                self._store,
                copies,
                lambda: prepared.outline,
                account_of,
                record_base=partial(_record, Bases(database), prepared),
            )
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
        return self._register(name, semver or None, manifest, pieces_below(Path(folder), manifest), metadata)

    def import_package(
        self, source: str | Path, reference: str | None = None, *, public_key: bytes | None = None
    ) -> Version:
        """Register the files and metadata of a package, as `graftwork import` does; all else that it holds stays there.

        Args:
            reference: `NAME[:SEMVER]`; what the package says where you say nothing.
            public_key: in PEM; refuse what has no valid signature of this key.

        Raises:
            InvalidRequest, NotFound, Conflict, Refused, Damaged: as `graftwork import`.
        """
        with opened(str(source)) as (package, origin):
            name, semver = named(package, str(source), reference, self._knows)
            check_signatures(package, public_key)
            metadata, _ = metadata_of(package, origin, self._knows)
            return self._register(name, semver, package.manifest, package.files, metadata)

    def _register(
        self, name: str, semver: str | None, manifest: Manifest, pieces: Pieces, metadata: Mapping[str, Any] | None
    ) -> Version:
        for file in manifest.files:
            self._store.put(LOCAL, file.digest, pieces[file.path].chunks())
        pushed = self._pushes.push(LOCAL, name, manifest, semver=semver, metadata=metadata, actor=LOCAL)
        self._engine.retry(pushed.version.digest)  # the bytes are whole now, whatever they were
        return pushed.version

    def _knows(self, reference: str) -> bool:
        try:
            self.registry.resolve(LOCAL, reference)
        except (InvalidRequest, NotFound):
            return False
        return True

    def generate(
        self, prompt: Input, *, adapter: Adapter = None, structured_outputs: AnswerForm | None = None, **params: Any
    ) -> Answer:
        """The whole answer; `params` are the fields of `SamplingParams`, `companions`, `cache_salt` and `priority`.

        With `structured_outputs` the answer is what they say: `{"json": schema}`, `{"regex": …}`, `{"choice": […]}`.
        `companions="base"` leaves aside the chat template, tokens and defaults that the adapter may carry. Only calls
        with the same `cache_salt` begin with what others have computed.

        Raises:
            UnknownModel, InvalidRequest, Forbidden, Refused, Unavailable, GenerationFailed: as the server answers.
        """
        return self.generate_all([(prompt, adapter)], structured_outputs=structured_outputs, **params)[0]

    def generate_all(
        self,
        prompts: Sequence[tuple[Input, Adapter]],
        *,
        structured_outputs: AnswerForm | None = None,
        priority: int | Sequence[int] = 0,
        **params: Any,
    ) -> list[Answer]:
        """Answers to several (prompt, adapter) pairs, batched together whatever their adapters.

        Those with the smallest `priority`, of all or of each, find a place first where not all do.
        """
        order = list(priority) if isinstance(priority, Sequence) else [priority] * len(prompts)
        if len(order) != len(prompts):
            raise InvalidRequest(f"priority has {len(order)} numbers for {len(prompts)} prompts.", field="priority")
        requests = [
            self._request(prompt, adapter, structured_outputs, {**params, "priority": one})
            for (prompt, adapter), one in zip(prompts, order, strict=True)
        ]
        return self._runner.run(_together([self._whole(request, by) for request, by in requests]))

    def stream(
        self, prompt: Input, *, adapter: Adapter = None, structured_outputs: AnswerForm | None = None, **params: Any
    ) -> Generator[str]:
        """The answer's text as it comes; closing the iterator ends the generation."""
        request, _ = self._request(prompt, adapter, structured_outputs, params)
        deltas = self._engine.generate(request)
        try:
            while (delta := self._runner.run(_next(deltas))) is not None:
                if delta.text:
                    yield delta.text
        finally:
            self._runner.run(deltas.aclose())

    def embed(
        self, texts: Sequence[str], *, adapter: Adapter = None, pooling: Literal["mean", "last"] = "mean",
        normalize: bool = True,
    ) -> list[list[float]]:  # fmt: skip
        """Each text as a vector [hidden_size]: the mean of its final hidden states or the last one, of length 1.

        Raises:
            UnknownModel, InvalidRequest, Forbidden, Refused, Unavailable, GenerationFailed: as the server answers.
        """
        if pooling not in ("mean", "last"):
            raise InvalidRequest(f"pooling is {pooling!r}; it must be 'mean' or 'last'.", field="pooling")
        return [vector(one.values, normalize=normalize).tolist() for one in self._pool(texts, adapter, pooling)]

    def classify(self, texts: Sequence[str], *, adapter: str) -> list[dict[str, float]]:
        """The probability of each class of an adapter with a classification head, by its label, for each text.

        Raises:
            InvalidRequest: the adapter has no such head. Else as `embed`.
        """
        results = self._pool(texts, adapter, "classes")
        return [dict(zip(one.labels, probabilities(one.values), strict=True)) for one in results]

    def load(self, adapter: str) -> None:
        """Bring a version to memory before it is asked.

        Raises:
            UnknownModel, Forbidden, Refused, Damaged, Unavailable: it cannot be had.
        """
        self._bring(adapter, pin=False)

    def pin(self, adapter: str) -> None:
        """Load a version and keep it in memory until `unpin`.

        Raises:
            Conflict: other pins leave it no room. Else as `load`.
        """
        self._bring(adapter, pin=True)

    def unpin(self, adapter: str) -> None:
        """Let a version leave memory again when its room is needed."""
        self._engine.unpin(self._handle(adapter))

    def unload(self, adapter: str, *, disk: bool = False) -> None:
        """Free a version's memory, and with `disk` its room in the cache folder; the next request loads it again.

        Raises:
            Conflict: it is pinned.
        """
        self._runner.run(self._engine.unload(self._handle(adapter), disk=disk))

    def residency(self) -> Mapping[str, Residency]:
        """What is in memory, on its way there, or failed a moment ago, by digest."""
        return self._engine.residency()

    def _bring(self, adapter: str, *, pin: bool) -> None:
        if not self._runner.run(self._engine.load(self._handle(adapter), pin=pin)):
            raise Unavailable(f"The adapter {adapter} was not loaded in time; try again.")

    def _handle(self, adapter: str) -> AdapterHandle:
        handle = handle_of(self._decide(adapter), LOCAL)
        assert handle is not None, "an explicit adapter never means the base"
        return handle

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
        digest = decision.digest or self._engine.outline.weights_digest
        deprecated = tuple(f"{one.label}: {one.deprecated.message}" for one in decision.versions if one.deprecated)
        return Answer(
            text, decision.model, digest, last.finish_reason, last.prompt_tokens, last.completion_tokens,
            last.cached_tokens, deprecated,
        )  # fmt: skip

    def _request(
        self, prompt: Input, adapter: Adapter, form: AnswerForm | None, params: Mapping[str, Any]
    ) -> tuple[GenerationRequest, Decision]:
        decision = self._decide(adapter)
        handle, wishes = handle_of(decision, LOCAL), read_wishes(params)
        sampling = wishes.sampling
        if handle is not None and wishes.companions:
            sampling = {**self._runner.run(self._engine.companions(handle)).defaults.sampling(), **sampling}
        found = form_of(form) if form is not None else None
        request = GenerationRequest(
            secrets.token_hex(8),
            read_prompt(prompt),
            SamplingParams(**sampling),
            handle,
            companions=wishes.companions,
            caller=wishes.caller,
            grammar=Grammar(*found) if found is not None else None,
        )
        return request, decision

    def _decide(self, adapter: Adapter) -> Decision:
        decision = choose(read_adapter(adapter), tenant=LOCAL, base=self.base, versions=self._snapshots.current())
        require_servable(decision.versions, base=self.base, base_digest=self._engine.outline.weights_digest)
        return decision

    def _pool(self, texts: Sequence[str], adapter: Adapter, pooling: Pooling) -> list[Pooled]:
        if isinstance(texts, str):
            raise InvalidRequest("texts is one text; give a list of them.", field="texts")
        handle = handle_of(self._decide(adapter), LOCAL)
        requests = [PoolingRequest(secrets.token_hex(8), text, pooling, handle) for text in texts]
        return self._runner.run(_together([self._engine.pool(request) for request in requests]))


async def _together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; one failure ends them all."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _next(deltas: AsyncGenerator[Delta]) -> Delta | None:
    return await anext(deltas, None)


def _record(bases: Bases, base: PreparedBase, tenant: str, actor: str) -> None:
    bases.register(tenant, base.name, identify_base(base.outline, base.folder), actor=actor)
