"""Reads evaluation results as the Hugging Face Hub keeps them: `model-index` of model cards, `.eval_results/*.yaml`.

Formats: https://github.com/huggingface/hub-docs/blob/main/modelcard.md and eval_results.yaml there. The second has one
value per entry and no name for it; here it is the metric `score`. What has no place in an evaluation is kept under
`extra`, tokens of verification as well: nothing here checks them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from graftwork.registry.evaluations.imported import (
    Imported,
    Json,
    mapping,
    moment,
    name,
    number,
    plain,
    refuse,
    sequence,
    text,
)

MODEL_INDEX = "model-index"
_SPLITS = ("train", "validation", "test")


def read_model_index(index: object) -> list[Imported]:
    """An evaluation for each result of each model in the index.

    Raises:
        InvalidRequest: naming the place that is not as it must be.
    """
    found = []
    for at, model in enumerate(sequence(index, MODEL_INDEX)):
        place = f"{MODEL_INDEX}.{at}"
        model = mapping(model, place)
        results = sequence(model.get("results"), f"{place}.results")
        found += [_of_card(one, model, f"{place}.results.{number_}") for number_, one in enumerate(results)]
    if not found:
        refuse(MODEL_INDEX, "has no results")
    return found


def read_eval_results(entries: object) -> list[Imported]:
    """An evaluation for each entry; raises as `read_model_index`."""
    found = [_of_entry(mapping(entry, str(at)), at) for at, entry in enumerate(sequence(entries, "the file"))]
    if not found:
        refuse("the file", "has no entries")
    return found


def _of_card(result: object, model: Json, place: str) -> Imported:
    result = mapping(result, place)
    task, dataset = (mapping(result.get(field), f"{place}.{field}") for field in ("task", "dataset"))
    kind = text(task.get("type"), f"{place}.task.type")
    data = text(dataset.get("type"), f"{place}.dataset.type")
    given = [
        mapping(metric, f"{place}.metrics.{at}")
        for at, metric in enumerate(sequence(result.get("metrics"), f"{place}.metrics"))
    ]
    split = dataset.get("split")
    body = {
        "family": "task",
        "name": name(f"{kind}/{data}"),
        "split": split if split in _SPLITS else None,
        "dataset": plain({"id": data, "config": dataset.get("config"), "revision": dataset.get("revision")}),
        "metrics": _metrics(given, f"{place}.metrics"),
        "conditions": plain({"split": None if split in _SPLITS else split, "dataset_args": dataset.get("args")}),
        "extra": plain({**result, "model": model.get("name")}),
    }
    return Imported(place, plain(body))


def _metrics(given: list[Json], place: str) -> list[Json]:
    """By their types; where several have one (`rouge`), by their names."""
    types = [text(metric.get("type"), f"{place}.{at}.type") for at, metric in enumerate(given)]
    often = Counter(types)
    return [
        {
            "name": name(kind if often[kind] == 1 else str(metric.get("name") or kind)),
            "value": number(metric.get("value"), f"{place}.{at}.value"),
        }
        for at, (kind, metric) in enumerate(zip(types, given, strict=True))
    ]


def _of_entry(entry: Mapping[str, Any], at: int) -> Imported:
    dataset = mapping(entry.get("dataset"), f"{at}.dataset")
    data = text(dataset.get("id"), f"{at}.dataset.id")
    task, notes = dataset.get("task_id"), entry.get("notes")
    body = {
        "family": "task",
        "name": name(f"{data}/{task}" if task else data),
        "measured_at": moment(entry.get("date"), f"{at}.date"),
        "dataset": plain({"id": data, "config": task, "revision": dataset.get("revision")}),
        "metrics": [{"name": "score", "value": number(entry.get("value"), f"{at}.value")}],
        "conditions": plain({"setup": notes}),
        "notes": text(notes, f"{at}.notes") if notes is not None else None,
        "extra": plain({key: value for key, value in entry.items() if key not in ("dataset", "date", "notes")}),
    }
    return Imported(str(at), plain(body))
