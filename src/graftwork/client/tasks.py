"""Tasks: what is asked under a name; set, listed and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graftwork.client.resources import Resources
from graftwork.client.wire import Json, Wire


class Tasks(Resources):
    """`client.tasks`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire, "/api/v1/tasks", "tasks")

    def run(
        self,
        task: str,
        text: str,
        *,
        fields: Mapping[str, Any] | None = None,
        adapter_id: str | None = None,
        **options: Any,
    ) -> Json:
        """The result of one text, with what the model said: `{"result", "text", "model", "usage", "graftwork", …}`.

        Args:
            adapter_id: who answers in place of the task's own adapter.
            options: other fields of the request, such as `priority`.

        Raises:
            UnreadableAnswer: what the model said is not what the task promises.
        """
        return self._run({"task": task, "text": text, "fields": fields, "adapter_id": adapter_id, **options})

    def run_each(
        self,
        task: str,
        inputs: Sequence[str | Mapping[str, Any]],
        *,
        fields: Mapping[str, Any] | None = None,
        adapter_id: str | None = None,
        **options: Any,
    ) -> Json:
        """Of several inputs, texts or `{"text", "fields"}`: `{"data": [{"result", "error", …}], …}`, in their order.

        Each has its own result or its own `error`.
        """
        body = {"task": task, "inputs": list(inputs), "fields": fields, "adapter_id": adapter_id}
        return self._run({**body, **options})

    def _run(self, body: Json) -> Json:
        return self._wire.json("POST", "/v1/tasks", json={key: one for key, one in body.items() if one is not None})
