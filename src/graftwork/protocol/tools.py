"""Tools: what a chat lets the model call, and the calls in its messages, in OpenAI's shapes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from graftwork.protocol.body import Body, read_text

MAX_TOOLS = 128  # OpenAI's own limit

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class Function(Body):
    """One function; `parameters` is a JSON schema of its arguments, and absent means none."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    """One tool; only functions are there."""

    type: Literal["function"]
    function: Function

    def for_template(self) -> dict[str, Any]:
        """As chat templates know it; of what else the request says of it nothing reaches the prompt."""
        one = self.function
        known = {"name": one.name, "description": one.description or "", "parameters": one.parameters or {}}
        return {"type": "function", "function": known}


class NamedFunction(Body):
    name: Name


class NamedTool(Body):
    """`tool_choice` of one function."""

    type: Literal["function"]
    function: NamedFunction


def _choice(value: Any) -> Any:
    if value is not None and not isinstance(value, dict) and value not in ("none", "auto", "required"):
        raise ValueError("must be 'none', 'auto', 'required', or {'type': 'function', 'function': {'name': …}}")
    return value


ToolChoice = Annotated[Literal["none", "auto", "required"] | NamedTool | None, BeforeValidator(_choice)]


def _arguments(value: Any) -> Any:
    """OpenAI's text of a JSON object, as that object: templates write it in their own way."""
    try:
        found = read_text(value) if isinstance(value, str) else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("must be the text of a JSON object")
    return found


class CalledFunction(Body):
    name: Name
    # `Any` where it is stored: the validator has already made it an object.
    arguments: Annotated[Any, BeforeValidator(_arguments)]


class ToolCall(Body):
    """A call in a message of the assistant."""

    id: str
    type: Literal["function"] = "function"
    function: CalledFunction

    def for_template(self) -> dict[str, Any]:
        """As chat templates know it."""
        called = {"name": self.function.name, "arguments": self.function.arguments}
        return {"id": self.id, "type": self.type, "function": called}
