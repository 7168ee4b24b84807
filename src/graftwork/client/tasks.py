"""Tasks: what is asked under a name; set, listed and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire


class Tasks:
    """`client.tasks`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

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

    def set(self, document: Mapping[str, Any], *, expected: str | None = None, reason: str | None = None) -> Json:
        """Make a document of kind Task what the name in its `metadata` means.

        Args:
            expected: digest that the task must have now, or "absent".

        Raises:
            PreconditionFailed: it has another.
        """
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        path = _task(name if isinstance(name, str) and name else "-")  # the server says what is wrong with it
        return self._wire.json("PUT", path, json=dict(document), headers=_expecting(expected), params=_given(reason))

    def show(self, name: str) -> Json:
        """A task as it is now, and in `status` what its adapter means."""
        return self._wire.json("GET", _task(name))

    def revisions(self, name: str) -> list[Json]:
        """Every content that a task had, the newest first."""
        return self._wire.pages(f"{_task(name)}/revisions", "revisions")

    def remove(self, name: str, *, expected: str | None = None, reason: str | None = None) -> None:
        """Let a name mean nothing; its revisions stay."""
        self._wire.send("DELETE", _task(name), headers=_expecting(expected), params=_given(reason))

    def list(self) -> list[Json]:
        """All tasks, by name."""
        return self._wire.pages("/api/v1/tasks", "tasks")


def _task(name: str) -> str:
    return f"/api/v1/tasks/{quote(name, safe='')}"


def _given(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}


def _expecting(expected: str | None) -> dict[str, str]:
    if expected is None:
        return {}
    return {"if-none-match": "*"} if expected == "absent" else {"if-match": f'"{expected}"'}
