"""Analyses: templates by which versions are judged, over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.client.resources import Resources
from graftwork.client.wire import Json, Wire


class Analyses(Resources):
    """`client.analyses`: templates as resources, and what they say of evidence."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire, "/api/v1/analysis/templates", "templates")

    def check(
        self,
        template: Mapping[str, Any],
        evidence: Mapping[str, Any] | None = None,
        *,
        args: Mapping[str, str | float] | None = None,
    ) -> Json:
        """Read a resource of kind AnalysisTemplate, and judge evidence by it where it is given.

        `args` are values of its arguments. Returns `{"name", "args", "result", "reason", "metrics": [{"name", "result",
        "reason", "figures"}]}`; a result is `pass`, `fail` or `inconclusive`, and None without evidence.

        Raises:
            InvalidRequest: the template or the evidence cannot be read; the message names the field.
        """
        body: Json = {"template": dict(template), **({} if evidence is None else {"evidence": dict(evidence)})}
        body |= {"args": [{"name": name, "value": value} for name, value in args.items()]} if args else {}
        return self._wire.json("POST", "/api/v1/analysis/check", json=body)
