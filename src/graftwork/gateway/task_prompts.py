"""TaskPrompts and TaskForms: fill the templates of tasks, and try their schemas, in processes that tenants share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graftwork.adapters.companions.chat_template import MAX_CHARS
from graftwork.engine.fair_processes import FairProcesses
from graftwork.engine.grammar import MAX_GRAMMAR_BYTES, Grammar
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.request import ChatPrompt, Prompt
from graftwork.engine.template_process import max_answer_bytes
from graftwork.errors import InvalidRequest
from graftwork.protocol.tasks import Scalar, TaskSpec

_ONLY_TEXT = re.compile(r"\{\{-?\s*text\s*-?\}\}", re.ASCII)


class TaskPrompts:
    """Fills templates; one that is nothing but words, or the text, needs no process."""

    def __init__(self, limits: ProcessLimits) -> None:
        self._processes = FairProcesses(
            "graftwork.engine.template_worker",
            "fills templates of tasks",
            limits,
            threads=4,
            most_waiting=4096,
            what="prompts of tasks",
        )

    async def fill(self, spec: TaskSpec, values: Mapping[str, Scalar], tenant: str) -> Prompt:
        """What the model is asked about one input; `values` has its `text` and all fields.

        Raises:
            InvalidRequest: a template refused them, or broke a limit; `field` is `text`.
            TooManyRequests: too many inputs of the tenant wait.
            Unavailable: the process does not start, or the server stops.
        """
        texts = await self._fill([template for _, template in spec.prompt.templates] or ["{{ text }}"], values, tenant)
        if spec.prompt.text is not None:
            return texts[0]
        roles = [message.role for message in spec.prompt.messages or ()] or ["user"]
        return ChatPrompt(tuple({"role": role, "content": text} for role, text in zip(roles, texts, strict=True)))

    def close(self) -> None:
        self._processes.close()

    async def _fill(self, templates: Sequence[str], values: Mapping[str, Scalar], tenant: str) -> list[str]:
        known = [_as_it_stands(template, values) for template in templates]
        asked = [template for template, text in zip(templates, known, strict=True) if text is None]
        filled = iter(await self._ask(asked, values, tenant) if asked else ())
        return [next(filled) if text is None else text for text in known]

    async def _ask(self, templates: Sequence[str], values: Mapping[str, Scalar], tenant: str) -> list[str]:
        question = {"templates": list(templates), "fields": dict(values), "max_chars": MAX_CHARS}
        answer = await self._processes.ask(tenant, question, max_answer_bytes(MAX_CHARS))
        if answer is None:
            limits = self._processes.limits
            raise InvalidRequest(f"The task's template took more than {limits} and was stopped.", field="text")
        if "texts" not in answer:
            raise InvalidRequest(f"The task's template refused the input: {answer['error']}", field="text")
        texts: list[str] = answer["texts"]
        return texts


class TaskForms:
    """Tries what a task says of its answers before anybody asks for one."""

    def __init__(self, limits: ProcessLimits) -> None:
        self._processes = FairProcesses(
            "graftwork.engine.grammar_worker",
            "tries forms of tasks",
            limits,
            threads=2,
            most_waiting=128,
            what="forms of tasks",
        )

    async def check(self, grammar: Grammar, tenant: str) -> float:
        """Make sure that answers can be held to it, whatever the model's tokens are; how many seconds of a processor
        that took.

        Raises:
            InvalidRequest: they cannot; `field` is the grammar's.
            TooManyRequests, Unavailable: as `TaskPrompts.fill`.
        """
        question = {"kind": grammar.kind, "source": grammar.source}
        answer = await self._processes.ask(tenant, question, 16 * MAX_GRAMMAR_BYTES)
        if answer is None or "error" in answer:
            limits = self._processes.limits
            why = answer["error"] if answer else f"it is nested too deeply, or takes more than {limits}."
            raise InvalidRequest(f"{grammar.field} cannot be used: {why}", field=grammar.field)
        return float(answer["cpu_s"])

    def close(self) -> None:
        self._processes.close()


def _as_it_stands(template: str, values: Mapping[str, Scalar]) -> str | None:
    """What a template becomes where nobody has to read it as one; None: somebody has to."""
    if _ONLY_TEXT.fullmatch(template):
        return str(values["text"])
    return None if "{" in template or "\r" in template else template.removesuffix("\n")
