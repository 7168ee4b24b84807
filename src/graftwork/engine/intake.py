"""Intake: turns requests into rows for the loop: their tokens by the right words, their limits, their seed."""

from __future__ import annotations

import asyncio
import secrets

from graftwork.adapters.companions.companions import NO_COMPANIONS, Companions
from graftwork.engine.adapter_texts import AdapterTexts
from graftwork.engine.block_keys import BlockKeys
from graftwork.engine.grammars import Grammars
from graftwork.engine.pooler import Pooler
from graftwork.engine.request import AdapterHandle, ChatPrompt, GenerationRequest, PoolingRequest
from graftwork.engine.row_grammar import RowGrammar
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.sequence import Sequence
from graftwork.engine.stop import StopMatcher
from graftwork.engine.template_process import TemplateProcess
from graftwork.engine.templates import Templates
from graftwork.engine.text import Text
from graftwork.engine.tool_formats import ToolFormat, format_of
from graftwork.errors import InvalidRequest
from graftwork.kernels.attention import PAGE_TOKENS


class Intake:
    """Owns the words of adapters, the processes of their templates, and the grammars.

    Args:
        texts: None leaves all companions aside.
        tool_format: how models write calls of tools, or `auto`.
        shared_base: digest of the base whose keys and values rows share where they may; None: they share nothing.
    """

    def __init__(
        self,
        text: Text,
        texts: AdapterTexts | None,
        templates: Templates,
        grammars: Grammars,
        max_context: int,
        tool_format: str,
        *,
        shared_base: str | None,
    ) -> None:
        self._text, self._texts, self._templates, self._max_context = text, texts, templates, max_context
        self._grammars, self._named_format, self._shared_base = grammars, tool_format, shared_base

    def close(self) -> None:
        """End what encodes and renders; whoever waits is told."""
        if self._texts is not None:
            self._texts.close()
        self._templates.close()
        self._grammars.close()

    async def companions(self, handle: AdapterHandle) -> Companions:
        """What a version carries beside its weights, if that is used at all; nothing for several together.

        Raises:
            Refused, NotFound, Damaged, Unavailable: its files cannot be had or used.
        """
        if handle.parts or self._texts is None:
            return NO_COMPANIONS
        return (await self._texts.of(handle)).companions

    async def tool_format(self, adapter: AdapterHandle | None, *, own: bool) -> ToolFormat:
        """How an adapter, by its own template where it has one and `own` is true, or the base writes calls of tools.

        Raises:
            InvalidRequest: its template does not say. Else as `companions`.
        """
        text = await self._text_of(adapter, own=own)
        return await asyncio.to_thread(format_of, text.tool_template, self._named_format)

    async def generating(self, request: GenerationRequest) -> Sequence:
        """The row of a request, encoded in a worker thread, or in that of its adapter's own chat template."""
        text = await self._text_of(request.adapter, own=request.companions)
        grammar = None
        if request.grammar is not None:
            grammar = await self._grammars.row(request.grammar, text, request.caller.tenant)
        if text.template is None or not isinstance(request.prompt, ChatPrompt):
            return await asyncio.to_thread(self._answering, request, text, grammar)
        rendered = self._templates.submit(
            text.template, lambda process: self._answering(request, text, grammar, process)
        )
        return await asyncio.wrap_future(rendered)

    def _answering(
        self,
        request: GenerationRequest,
        text: Text,
        grammar: RowGrammar | None,
        process: TemplateProcess | None = None,
    ) -> Sequence:
        params = request.params
        endless = params.ignore_eos and grammar is None  # one with a grammar ends only where that is complete
        tokens = list(text.encode(request.prompt, max_tokens=self._max_context, process=process))
        _check_bias(params, text.vocab_size)
        sequence = Sequence(
            id=request.id,
            tokens=tokens,
            num_prompt=len(tokens),
            params=params,
            seed=params.seed if params.seed is not None else secrets.randbits(63),
            max_tokens=self._room_for(len(tokens), request, text),
            stop_ids=frozenset(params.stop_token_ids) | (frozenset() if endless else text.stop_ids),
            adapter=request.adapter,
            # What comes after other text keeps the space it may begin with: it is part of what the grammar asked for.
            detokenizer=text.detokenizer(after=tokens if params.echo or grammar else ()),
            stop=StopMatcher(params.stop),
            text=text,
            caller=request.caller,
            echo=text.echo(request.prompt, tokens) if params.echo else "",
            keys=self._keys(request),
            grammar=grammar,
        )
        return _with_keys(sequence)

    async def pooling(self, request: PoolingRequest) -> Sequence:
        """The row of a request to pool, encoded in a worker thread."""
        text = await self._text_of(request.adapter, own=request.companions)
        return await asyncio.to_thread(self._read, request, text)

    def _read(self, request: PoolingRequest, text: Text) -> Sequence:
        tokens = list(text.encode(request.prompt, max_tokens=self._max_context))
        if len(tokens) > self._max_context:
            raise InvalidRequest(
                f"The prompt has {len(tokens)} tokens; the context holds {self._max_context}. Shorten or split it.",
                field="prompt",
            )
        sequence = Sequence(
            id=request.id,
            tokens=tokens,
            num_prompt=len(tokens),
            params=SamplingParams(),
            seed=0,
            max_tokens=0,
            stop_ids=frozenset(),
            adapter=request.adapter,
            detokenizer=text.detokenizer(),
            stop=StopMatcher(()),
            text=text,
            caller=request.caller,
            pooler=Pooler(request.pooling),
            keys=self._keys(request),
        )
        return _with_keys(sequence)

    def _keys(self, request: GenerationRequest | PoolingRequest) -> BlockKeys | None:
        if self._shared_base is None:
            return None
        return BlockKeys(self._shared_base, request.adapter.digest if request.adapter else None, request.caller)

    def _room_for(self, prompt: int, request: GenerationRequest, text: Text) -> int:
        params = request.params
        least = 0 if params.max_tokens == 0 else 1  # of the answer
        if prompt + least > self._max_context:
            leaves = " and leave room for an answer" if least else ""
            raise InvalidRequest(
                f"The prompt has {prompt} tokens; at most {self._max_context - least} fit the context of "
                f"{self._max_context}{leaves}.",
                field="messages" if isinstance(request.prompt, ChatPrompt) else "prompt",
            )
        if params.max_tokens is None:
            usual = text.max_new_tokens or request.usual_tokens or self._max_context
            return min(self._max_context - prompt, usual, request.most_tokens or usual)
        if prompt + params.max_tokens > self._max_context:
            raise InvalidRequest(
                f"max_tokens is {params.max_tokens} and the prompt has {prompt} tokens, together more than the "
                f"context of {self._max_context}; ask for at most {self._max_context - prompt}.",
                field="max_tokens",
            )
        return params.max_tokens

    async def _text_of(self, adapter: AdapterHandle | None, *, own: bool) -> Text:
        """The words of an adapter that brings its own, else the base's; so for several adapters together."""
        if adapter is None or not own or adapter.parts or self._texts is None:
            return self._text
        return (await self._texts.of(adapter)).text


def _with_keys(sequence: Sequence) -> Sequence:
    """The row, its prompt hashed, so that the loop's thread need not do it."""
    sequence.block_keys(sequence.num_prompt // PAGE_TOKENS)
    return sequence


def _check_bias(params: SamplingParams, vocab_size: int) -> None:
    if unknown := [token_id for token_id, _ in params.logit_bias if token_id >= vocab_size]:
        raise InvalidRequest(
            f"logit_bias names {unknown[0]}, which is no token id here: they are 0 to {vocab_size - 1}.",
            field="logit_bias",
        )
