"""ToolFormat: how a family of models writes its calls of tools; `TOOL_FORMATS` has those that there are."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import regex

from graftwork.adapters.companions.chat_template import reads_tools
from graftwork.engine.grammar import Grammar
from graftwork.engine.grammar_options import WHITESPACE
from graftwork.errors import InvalidRequest

#: What a function without `parameters` takes; and what one that is not strict is held to, where anything is.
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True)
class Offered:
    """A function that may be called: its name, the JSON schema of its arguments, whether they must keep to it."""

    name: str
    parameters: Mapping[str, Any]
    strict: bool


@dataclass(frozen=True)
class ToolFormat:
    """A call is a JSON object of a name and arguments, between marks that differ.

    The patterns are for `regex`, which knows whether more text could still make a match. A call begins with the `{`
    that they end in.
    """

    name: str
    #: In a chat template, a sign of this format.
    sign: str
    #: The key of the arguments.
    arguments: str
    #: What begins the first call, and each after it, and what comes after the last.
    first: regex.Pattern[str]
    following: regex.Pattern[str]
    after: regex.Pattern[str]
    #: The same for grammars, as plain text: before and after each call, between two, around all.
    call: tuple[str, str]
    between: str
    around: tuple[str, str] = ("", "")
    #: Text after which a call may begin anywhere; without one an answer is calls from its first letter on, or none.
    mark: str = ""
    #: Templates that insist on identifiers of nine letters.
    short_ids: bool = False

    def new_id(self) -> str:
        return secrets.token_hex(5)[:9] if self.short_ids else f"call_{secrets.token_hex(12)}"

    def grammar(self, must: Sequence[Offered], *, several: bool) -> Grammar:
        """An answer that is nothing but calls of these, with the arguments that they take."""
        return _grammar(f"start: {self._calls(several)}", self._body(must, held=True))

    def free_grammar(self, may: Sequence[Offered], *, several: bool, content: Grammar | None) -> Grammar | None:
        """An answer that may call these, whose strict functions get what they take, and else is free, or `content`.

        None where it may be anything. `content` must be a JSON schema.
        """
        if content is not None:
            start = f"start: {self._calls(several)} | content\ncontent: %json {_guided(json.loads(content.source))}"
            return _grammar(start, self._body(may, held=False))
        if not any(one.strict for one in may):
            return None
        if self.mark:
            before, after = self.call
            start = (
                f"start: {'(begin body end)*' if several else '(begin body end)?'} TEXT\n"
                f"begin[lazy]: /(.|\\n)*/ {json.dumps(before)}\nend: {json.dumps(after)}\nTEXT: /(.|\\n)*/"
            )
        else:
            opens = re.escape((self.around[0] + self.call[0] + "{")[0])
            start = f"start: {self._calls(several)} | TEXT\nTEXT: /([^{opens}\\s](.|\\n)*)?/"
        return _grammar(start, self._body(may, held=False))

    def _calls(self, several: bool) -> str:
        opening, closing = map(_quoted, self.around)
        before, after = map(_quoted, self.call)
        more = f"({_quoted(self.between)} {before} body {after})*" if several else ""
        return f"{opening} {before} body {after} {more} {closing}"

    def _body(self, functions: Sequence[Offered], *, held: bool) -> str:
        rules = [f"body: {' | '.join(f'f{index}' for index in range(len(functions)))}"]
        for index, one in enumerate(functions):
            head = f'{{"name": {json.dumps(one.name)}, "{self.arguments}": '
            schema = one.parameters if held or one.strict else _ANY_OBJECT
            rules.append(f'f{index}: {json.dumps(head)} a{index} "}}"\na{index}: %json {_guided(schema)}')
        return "\n".join(rules)


def _grammar(start: str, body: str) -> Grammar:
    return Grammar("grammar", f"{start}\n{body}\n", "tools")


def _guided(schema: Mapping[str, Any]) -> str:
    return json.dumps({**(schema or _ANY_OBJECT), "x-guidance": WHITESPACE})


def _quoted(text: str) -> str:
    return json.dumps(text) if text else ""


# White space is bounded: without, a long run of it would be searched from each of its places, again with each token.
_HERMES = ToolFormat(
    name="hermes",
    sign="<tool_call>",
    arguments="arguments",
    first=regex.compile(r"\s{0,64}<tool_call>\s{0,64}\{"),
    following=regex.compile(r"\s{0,64}</tool_call>\s{0,64}<tool_call>\s{0,64}\{"),
    after=regex.compile(r"\s{0,64}</tool_call>\s{0,64}"),
    call=("<tool_call>\n", "\n</tool_call>"),
    between="\n",
    mark="<tool_call>",
)
_LLAMA = ToolFormat(
    name="llama3",
    sign="<|python_tag|>",
    arguments="parameters",
    first=regex.compile(r"\A\s{0,64}(?:<\|python_tag\|>)?\s{0,64}\{"),
    following=regex.compile(r"\A\s{0,64};\s{0,64}\{"),
    after=regex.compile(r"\s{0,64}"),
    call=("", ""),
    between="; ",
)
_MISTRAL = ToolFormat(
    name="mistral",
    sign="[TOOL_CALLS]",
    arguments="arguments",
    first=regex.compile(r"\A\s{0,64}(?:\[TOOL_CALLS\])?\s{0,64}\[\s{0,64}\{"),
    following=regex.compile(r"\A\s{0,64},\s{0,64}\{"),
    after=regex.compile(r"\s{0,64}\]\s{0,64}"),
    call=("", ""),
    between=", ",
    around=("[", "]"),
    short_ids=True,
)
TOOL_FORMATS = {one.name: one for one in (_HERMES, _LLAMA, _MISTRAL)}


def format_of(template: str | None, named: str) -> ToolFormat:
    """The format of a model with this chat template: the one that is `named`, or where that is `auto` its sign's.

    Raises:
        InvalidRequest: the template does not tell the model of tools, or not in which form to call them.
    """
    if template is None or not reads_tools(template):
        raise InvalidRequest(
            "The chat template of this model has no place for tools. Use an adapter whose template has, or ask for a "
            "form by response_format.",
            field="tools",
        )
    found = TOOL_FORMATS.get(named) or next((one for one in TOOL_FORMATS.values() if one.sign in template), None)
    if found is None:
        signs = ", ".join(one.sign for one in TOOL_FORMATS.values())
        raise InvalidRequest(
            f"The chat template of this model has none of the signs {signs}: its form of calls is unknown. Start the "
            "server with GRAFTWORK_TOOL_FORMAT.",
            field="tools",
        )
    return found
