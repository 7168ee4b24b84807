"""ToolUse: what one chat lets the model call: the grammar that holds its answer, and what reads the calls out of it."""

from __future__ import annotations

from dataclasses import dataclass

from graftwork.engine.call_reader import CallReader
from graftwork.engine.grammar import Grammar
from graftwork.engine.tool_formats import Offered, ToolFormat
from graftwork.errors import InvalidRequest
from graftwork.gateway.choosing import Chosen
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.tools import Function


@dataclass(frozen=True)
class ToolUse:
    """`must` are those of which one has to be called; none: the model decides."""

    form: ToolFormat
    offered: tuple[Offered, ...]
    must: tuple[Offered, ...]
    several: bool

    def grammar(self, content: Grammar | None) -> Grammar | None:
        """What the answer may be; `content` is what it must be where nothing is called.

        Raises:
            InvalidRequest: `content` is no JSON schema.
        """
        if self.must:
            return self.form.grammar(self.must, several=self.several)
        if content is not None and content.kind != "json":
            raise InvalidRequest(f"{content.field} does not go together with tools; a JSON schema does.", field="tools")
        return self.form.free_grammar(self.offered, several=self.several, content=content)

    def reader(self) -> CallReader:
        """A fresh one, for one answer."""
        return CallReader(self.form, {one.name for one in self.offered}, several=self.several)


async def tool_use(chosen: Chosen, body: ChatRequest) -> ToolUse | None:
    """None where nothing may be called.

    Raises:
        InvalidRequest: who answers has no place for tools.
    """
    if not body.offered:
        return None
    form = await chosen.engine.tool_format(chosen.adapter, own=body.companions != "base")
    several = body.parallel_tool_calls is not False
    return ToolUse(form, tuple(map(_offered, body.offered)), tuple(map(_offered, body.must_call)), several)


def _offered(one: Function) -> Offered:
    return Offered(one.name, one.parameters or {"type": "object", "additionalProperties": False}, bool(one.strict))
