"""ChatRequest: the body of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.not_yet import NOT_YET_CHAT, refuse_not_yet
from graftwork.protocol.sampling import INT32, SamplingFields
from graftwork.protocol.tools import MAX_TOOLS, Function, NamedTool, Tool, ToolCall, ToolChoice

MAX_TOP_LOGPROBS = 20
MAX_MESSAGES = 2048
MAX_PARTS = 256


def _role(value: Any) -> Any:
    if value == "function":
        raise ValueError("'function' is not supported; use 'tool'")
    if value not in ("system", "developer", "user", "assistant", "tool"):
        raise ValueError("must be one of 'system', 'developer', 'user', 'assistant', 'tool'")
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
    """One turn of the conversation; its content is always one string after reading, empty where there is none."""

    role: Annotated[Literal["system", "developer", "user", "assistant", "tool"], BeforeValidator(_role)]
    content: Annotated[str, BeforeValidator(_text, json_schema_input_type=ContentGiven)] = ""
    tool_calls: Annotated[list[ToolCall] | None, Field(max_length=MAX_TOOLS)] = None
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_content(cls, given: Any) -> Any:
        """Only a message of calls may have none."""
        if isinstance(given, dict) and given.get("tool_calls") and given.get("content") is None:
            return {**given, "content": ""}
        return given if not isinstance(given, dict) or "content" in given else {**given, "content": None}

    def for_template(self) -> dict[str, Any]:
        """As chat templates know it: they have no `developer`, and calls have their arguments as objects."""
        made: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": self.content}
        if self.tool_calls:
            made["tool_calls"] = [call.for_template() for call in self.tool_calls]
        if self.role == "tool":
            made["tool_call_id"] = self.tool_call_id
            made |= {"name": self.name} if self.name else {}
        return made


class ChatRequest(SamplingFields):
    """A chat: messages in, the assistant's next message out."""

    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES, json_schema_extra={"minItems": 1})]
    max_completion_tokens: Annotated[int | None, Field(ge=1, lt=INT32)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=MAX_TOP_LOGPROBS)] = None
    tools: Annotated[list[Tool] | None, Field(max_length=MAX_TOOLS)] = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None

    def check(self) -> None:
        refuse_not_yet(self.model_extra or {}, NOT_YET_CHAT)
        super().check()
        if not self.messages:
            raise InvalidRequest("messages is empty; give at least one message.", field="messages")
        for index, message in enumerate(self.messages):
            self._check_message(index, message)
        self._check_tools()
        if self.top_logprobs is not None and not self.logprobs:
            raise InvalidRequest("top_logprobs needs logprobs to be true.", field="top_logprobs")

    def _check_message(self, index: int, message: Message) -> None:
        for field in ("function_call", "audio"):
            if (message.model_extra or {}).get(field):
                where = f"messages.{index}.{field}"
                raise InvalidRequest(f"{where} is not supported yet. Leave it out.", field=where)
        if message.tool_calls and message.role != "assistant":
            where = f"messages.{index}.tool_calls"
            raise InvalidRequest(f"{where} belongs to messages of the assistant.", field=where)
        if message.role == "tool" and not message.tool_call_id:
            where = f"messages.{index}.tool_call_id"
            raise InvalidRequest(f"{where} is required: it says which call this answers.", field=where)

    def _check_tools(self) -> None:
        names = [tool.function.name for tool in self.tools or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise InvalidRequest(f"tools names the function {twice} twice.", field="tools")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.function.name not in names:
            raise InvalidRequest(
                f"tool_choice names the function {self.tool_choice.function.name}, which is not one of the tools.",
                field="tool_choice",
            )
        if self.tool_choice == "required" and not names:
            raise InvalidRequest("tool_choice is 'required' and there are no tools.", field="tool_choice")

    @property
    def offered(self) -> list[Function]:
        """The functions that the model may call; none where `tool_choice` says so."""
        return [] if self.tool_choice == "none" else [tool.function for tool in self.tools or ()]

    @property
    def must_call(self) -> list[Function]:
        """Those of which it must call one."""
        if isinstance(self.tool_choice, NamedTool):
            return [one for one in self.offered if one.name == self.tool_choice.function.name]
        return self.offered if self.tool_choice == "required" else []

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
