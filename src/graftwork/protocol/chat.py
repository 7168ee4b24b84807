"""ChatRequest: the body of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.not_yet import NOT_YET_CHAT, refuse_not_yet
from graftwork.protocol.sampling import INT32, SamplingFields

MAX_TOP_LOGPROBS = 20
MAX_MESSAGES = 2048
MAX_PARTS = 256


def _role(value: Any) -> Any:
    if value in ("tool", "function"):
        raise ValueError(f"{value!r} is not supported yet")
    if value not in ("system", "developer", "user", "assistant"):
        raise ValueError("must be one of 'system', 'developer', 'user', 'assistant'")
    return value


def _text(value: Any) -> Any:
    """OpenAI's content: a string, or parts of which only text is served; they are joined by line ends."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise ValueError("must be a string or a non-empty list of {'type': 'text', 'text': …} parts")
    if len(value) > MAX_PARTS:
        raise ValueError(f"has {len(value)} parts; at most {MAX_PARTS} in one message")
    texts: list[str] = []
    for part in value:
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise ValueError("parts must be objects with a type")
        if part["type"] != "text":
            raise ValueError(f"parts of type {part['type'][:32]!r} are not supported; only text is")
        if not isinstance(part.get("text"), str):
            raise ValueError("parts of type text must have a string text")
        texts.append(part["text"])
    return "\n".join(texts)


class TextPart(Body):
    """One of several texts of a message."""

    type: Literal["text"]
    text: str


#: How a message's content looks on the wire.
ContentGiven = str | Annotated[list[TextPart], Field(min_length=1, max_length=MAX_PARTS)]


class Message(Body):
    """One turn of the conversation; its content is always one string after reading."""

    role: Annotated[Literal["system", "developer", "user", "assistant"], BeforeValidator(_role)]
    content: Annotated[str, BeforeValidator(_text, json_schema_input_type=ContentGiven)]

    def for_template(self) -> dict[str, str]:
        """As chat templates know it: they have no `developer`."""
        return {"role": "system" if self.role == "developer" else self.role, "content": self.content}


class ChatRequest(SamplingFields):
    """A chat: messages in, the assistant's next message out."""

    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES, json_schema_extra={"minItems": 1})]
    max_completion_tokens: Annotated[int | None, Field(ge=1, lt=INT32)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=MAX_TOP_LOGPROBS)] = None

    def check(self) -> None:
        refuse_not_yet(self.model_extra or {}, NOT_YET_CHAT)
        super().check()
        if not self.messages:
            raise InvalidRequest("messages is empty; give at least one message.", field="messages")
        for index, message in enumerate(self.messages):
            for field in ("tool_calls", "function_call", "audio"):
                if (message.model_extra or {}).get(field):
                    where = f"messages.{index}.{field}"
                    raise InvalidRequest(f"{where} is not supported yet. Leave it out.", field=where)
        if self.top_logprobs is not None and not self.logprobs:
            raise InvalidRequest("top_logprobs needs logprobs to be true.", field="top_logprobs")

    @property
    def repeats_prompt(self) -> bool:
        return False

    @property
    def usual_tokens(self) -> int | None:
        """How many tokens are meant where neither the request nor the adapter says; None: up to the context's end."""
        return None

    @property
    def token_limit(self) -> int | None:
        """Tokens to generate at most; the newer field wins; None is up to the end of the context."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def alternatives(self) -> int | None:
        """Log probabilities beside the chosen token's own; None is none at all."""
        return (self.top_logprobs or 0) if self.logprobs else None
