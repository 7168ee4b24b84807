"""TemplateProcess: one child process that renders one chat template, stopped when it takes too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.engine.limited_process import LimitedProcess, ProcessLimits
from graftwork.errors import InvalidRequest


def max_answer_bytes(max_chars: int) -> int:
    """What a template worker may answer: one character takes at most twelve bytes of ASCII JSON."""
    return max_chars * 12 + 10_000


class TemplateProcess(LimitedProcess):
    """Owned by one thread; `kill` may be called from any."""

    def __init__(self, source: str, limits: ProcessLimits) -> None:
        super().__init__("graftwork.engine.template_worker", "renders chat templates of adapters", limits)
        self._source = source

    def render(self, fields: Mapping[str, Any], max_chars: int) -> str:
        """The text that the template makes of `fields`; starts the process if there is none.

        Raises:
            InvalidRequest: the template refused the messages, or broke a limit; `field` is `messages`.
            Unavailable: the process does not start.
        """
        asked = {"templates": [self._source], "fields": fields, "max_chars": max_chars}
        answer = self.ask(asked, max_answer_bytes(max_chars))
        if answer is None:
            raise InvalidRequest(
                f"The adapter's chat template took more than {self.limits} and was stopped.", field="messages"
            )
        if "texts" not in answer:
            raise InvalidRequest(
                f"The adapter's chat template refused the messages: {answer['error']}", field="messages"
            )
        return str(answer["texts"][0])
