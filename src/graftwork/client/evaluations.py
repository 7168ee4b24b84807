"""Evaluations: the client's door to what was measured of versions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graftwork.artifacts.bundle import BundleFile
from graftwork.artifacts.digest import digest_of_file
from graftwork.artifacts.packages.piece import Piece
from graftwork.client.uploads import upload
from graftwork.client.wire import Json, Wire

#: The class has a method called `list`.
Answers = list[Json]


class Evaluations:
    """Adds, lists and compares evaluations.

    >>> client.evaluations.add("sentiment:1.0.0", {  # doctest: +SKIP
    ...     "family": "task", "name": "sst2", "split": "validation", "dataset": {"id": "stanfordnlp/sst2"},
    ...     "metrics": [{"name": "accuracy", "value": 0.91, "higher_is_better": True, "n": 872}],
    ... })
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def add(
        self,
        reference: str,
        evaluation: Mapping[str, Any],
        *,
        examples: str | Path | None = None,
        reports: Sequence[str | Path] = (),
        idempotency_key: str | None = None,
    ) -> Json:
        """Keep an evaluation of a version; nothing changes it later, and another may supersede it.

        Args:
            examples: file of results by example, lines `{"id": …, "scores": {…}}`, which is uploaded.
            reports: files about the evaluation, which are uploaded.
            idempotency_key: yours for this call: with it again, it is answered as the first one was.
        """
        body = dict(evaluation)
        if examples is not None:
            body["examples"] = {"digest": self._upload(Path(examples))}
        if reports:
            added = [{"name": Path(report).name, "digest": self._upload(Path(report))} for report in reports]
            body["reports"] = [*body.get("reports", ()), *added]
        headers = {} if idempotency_key is None else {"idempotency-key": idempotency_key}
        return self._wire.json("POST", self._door(reference), json=body, headers=headers)

    def import_file(self, reference: str, path: str | Path) -> Answers:
        """Keep what is in a result file: lm-evaluation-harness', a model card, or `.eval_results/*.yaml`.

        The whole file is read and checked before anything is kept.
        """
        from graftwork.registry.evaluations.files import read_result_file

        found = read_result_file(Path(path))
        with tempfile.TemporaryDirectory() as folder:
            return [
                self.add(
                    reference,
                    one.evaluation,
                    examples=_written(Path(folder) / f"{at}.jsonl", one.examples) if one.examples else None,
                )
                for at, one in enumerate(found)
            ]

    def list(self, reference: str, *, family: str | None = None, name: str | None = None) -> Answers:
        """A version's evaluations, the newest first; of one family, or of one name."""
        wanted = {key: value for key, value in (("family", family), ("name", name)) if value is not None}
        return self._wire.pages(self._door(reference), "evaluations", **wanted)

    def show(self, reference: str, number: int) -> Json:
        """One evaluation of a version."""
        return self._wire.json("GET", f"{self._door(reference)}/{number}")

    def compare(self, *references: str, metrics: Sequence[str] = (), paired: bool = True) -> Json:
        """Versions side by side, each against the first: metrics, differences of configuration, sizes, paired tests."""
        params = {"reference": list(references), "metric": list(metrics), "paired": str(paired).lower()}
        return self._wire.json("GET", "/api/v1/compare", params=params)

    def trend(self, name: str, metric: str, *, limit: int = 100) -> Json:
        """A metric over an adapter's newest versions, each value with its change from the version before."""
        door = f"/api/v1/adapters/{quote(name, safe='')}/trend"
        return self._wire.json("GET", door, params={"metric": metric, "limit": limit})

    def _door(self, reference: str) -> str:
        version = self._wire.json("GET", "/api/v1/versions", params={"reference": reference})
        return f"/api/v1/adapters/{version['adapter']}/versions/{version['digest']}/evaluations"

    def _upload(self, path: Path) -> str:
        file = BundleFile("file", path.stat().st_size, digest_of_file(path))
        upload(self._wire, Piece(path, 0, file.size), file)
        return file.digest


def _written(path: Path, lines: Sequence[Json]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path
