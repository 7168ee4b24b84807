"""InferenceClient: asks models, adapters and routes; an answer comes whole or while it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from graftwork.client.answers import Answer, AnswerStream
from graftwork.client.wire import Json, Wire
from graftwork.protocol.structured import AnswerForm


class InferenceClient:
    """OpenAI's doors of a server; a `Client` has them beside all others."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def models(self) -> list[Json]:
        """What `model` may name: the base and the adapters."""
        data: list[Json] = self._wire.json("GET", "/v1/models")["data"]
        return data

    @overload
    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        model: str = "",
        stream: Literal[False] = False,
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> Answer: ...

    @overload
    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        model: str = "",
        stream: Literal[True],
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> AnswerStream: ...

    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        model: str = "",
        stream: bool = False,
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> Answer | AnswerStream:
        """The assistant's next message; `options` are OpenAI's fields (temperature, max_tokens, tools, stop, …).

        With `structured_outputs` the answer is what they say: `{"json": schema}`, `{"regex": …}`, `{"choice": […]}`.
        """
        turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        return self._generate(
            "/v1/chat/completions", {**options, **_form(structured_outputs), "messages": turns, "model": model}, stream
        )

    @overload
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        model: str = "",
        stream: Literal[False] = False,
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> Answer: ...

    @overload
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        model: str = "",
        stream: Literal[True],
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> AnswerStream: ...

    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        model: str = "",
        stream: bool = False,
        structured_outputs: AnswerForm | None = None,
        **options: Any,
    ) -> Answer | AnswerStream:
        """The continuation of one prompt, text or token ids."""
        given = prompt if isinstance(prompt, str) else list(prompt)
        return self._generate(
            "/v1/completions", {**options, **_form(structured_outputs), "prompt": given, "model": model}, stream
        )

    def _generate(self, path: str, body: Json, stream: bool) -> Answer | AnswerStream:
        if stream:
            body = {"stream_options": {"include_usage": True}, **body, "stream": True}
            return AnswerStream(self._wire.send("POST", path, json=body, stream=True))
        answer = self._wire.json("POST", path, json=body)
        choice = answer["choices"][0]
        message = choice["message"] if "message" in choice else {"content": choice["text"]}
        return Answer(
            message["content"] or "",
            answer["model"],
            choice["finish_reason"],
            answer["usage"],
            answer["graftwork"],
            tuple(message.get("tool_calls", ())),
        )


def _form(structured_outputs: AnswerForm | None) -> Json:
    return {} if structured_outputs is None else {"structured_outputs": structured_outputs}
