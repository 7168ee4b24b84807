"""Reads result files of EleutherAI's lm-evaluation-harness (0.4): `results_*.json`, and `samples_*.jsonl` beside it.

Each task becomes an evaluation. `acc,none` is the metric `acc`; of a filter with a name, `exact_match.strict-match`.
An example's id is its place in the data set and the beginning of its hash, so that only the same example of the same
data matches. What has no place in an evaluation is kept under `extra`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

TOOL = "lm-evaluation-harness"
#: Of the whole run, what a number depends on beside the model.
_CONDITIONS = ("limit", "gen_kwargs", "random_seed", "numpy_seed", "torch_seed", "fewshot_seed")
_TEMPLATES = ("system_instruction_sha", "chat_template_sha", "fewshot_as_multiturn")
#: Maps of tasks, of which an evaluation keeps its own.
_BY_TASK = ("results", "groups", "configs", "versions", "n-shot", "n-samples", "higher_is_better", "task_hashes")
_NO_METRIC = ("alias", "name", "sample_len", "sample_count", " ")


def is_lm_eval(content: object) -> bool:
    """Whether a JSON file is a result file of the harness."""
    return isinstance(content, Mapping) and "results" in content and ("configs" in content or "versions" in content)


def read_lm_eval(content: Json, samples: Mapping[str, Iterable[Json]]) -> list[Imported]:
    """An evaluation for each task and group; `samples` are lines of sample files, by task.

    Raises:
        InvalidRequest: naming the place in the file that is not as it must be.
    """
    results = mapping(content["results"], "results")
    if not results:
        refuse("results", "is empty")
    if strange := sorted(samples.keys() - results.keys()):
        refuse("results", f"has no task {strange[0]!r}, of which there are samples")
    return [_evaluation(content, task, samples.get(task, ())) for task in results]


def _evaluation(content: Json, task: str, samples: Iterable[Json]) -> Imported:
    place = f"results.{task}"
    entry = mapping(content["results"][task], place)
    own = {field: mapping(content.get(field) or {}, field).get(task) for field in _BY_TASK}
    config, run = mapping(own["configs"] or {}, f"configs.{task}"), mapping(content.get("config") or {}, "config")
    metrics = _metrics(entry, own, place)
    conditions = {
        "num_fewshot": own["n-shot"],
        "task_version": own["versions"],
        "task_hash": own["task_hashes"],
        **{field: run.get(field) for field in _CONDITIONS},
        **{field: content.get(field) for field in _TEMPLATES},
    }
    taken = {*_BY_TASK, *_TEMPLATES, "config", "date", "lm_eval_version"}
    rest = {field: value for field, value in content.items() if field not in taken}
    other = {key: value for key, value in entry.items() if "," not in key}
    extra = {**rest, "run": _without(run, _CONDITIONS), "task": config, "result": other}
    body = {
        "family": "task",
        "name": name(task),
        "split": "test" if config.get("test_split") else "validation" if config.get("validation_split") else None,
        "measured_at": moment(content.get("date"), "date"),
        "tool": plain({"name": TOOL, "version": content.get("lm_eval_version")}),
        "dataset": plain(_dataset(config, task)),
        "metrics": metrics,
        "conditions": plain(conditions),
        "extra": plain(extra),
    }
    return Imported(place, plain(body), tuple(_examples(samples, {metric["name"] for metric in metrics}, task)))


def _metrics(entry: Json, own: Mapping[str, Any], place: str) -> list[Json]:
    better = mapping(own["higher_is_better"] or {}, "higher_is_better")
    counts = mapping(own["n-samples"] or {}, "n-samples")
    found = []
    for key, value in entry.items():
        metric, comma, filter_ = key.partition(",")
        if not comma or metric.endswith("_stderr") or key in _NO_METRIC:
            continue
        error = entry.get(f"{metric}_stderr,{filter_}")
        told = {
            "name": _metric_name(metric, filter_),
            "value": number(value, f"{place}.{key}"),
            "stderr": None if error in (None, "N/A") else number(error, f"{place}.{metric}_stderr,{filter_}"),
            "higher_is_better": better.get(metric),
            "n": counts.get("effective") or None,
        }
        found.append(plain(told))
    if not found:
        refuse(place, 'has no metric like "acc,none"')
    return found


def _dataset(config: Json, task: str) -> Json:
    options = mapping(config.get("dataset_kwargs") or {}, f"configs.{task}.dataset_kwargs")
    identity = {"config": config.get("dataset_name"), "revision": options.get("revision")}
    return {"id": config.get("dataset_path") or task, **identity}


def _examples(samples: Iterable[Json], metrics: set[str], task: str) -> Iterable[Json]:
    """Each example once, with the scores of all filters; values that are no numbers are no scores of an example."""
    scores: dict[str, dict[str, float]] = {}
    for line, sample in enumerate(samples, start=1):
        place = f"samples of {task}, line {line}:"
        for field in ("doc_id", "doc_hash", "metrics"):
            if field not in sample:
                refuse(place, f"has no {field}")
        own = scores.setdefault(f"{sample['doc_id']}-{str(sample['doc_hash'])[:16]}", {})
        for metric in sequence(sample["metrics"], f"{place} metrics"):
            called = _metric_name(text(metric, f"{place} metrics"), str(sample.get("filter", "none")))
            value = sample.get(metric)
            if called in metrics and isinstance(value, int | float):
                own[called] = number(+value, f"{place} {metric}")  # true is 1
    return [{"id": example, "scores": own} for example, own in scores.items() if own]


def _metric_name(metric: str, filter_: str) -> str:
    return name(metric if filter_ in ("none", "") else f"{metric}.{filter_}")


def _without(value: Json, fields: Iterable[str]) -> Json:
    return {key: item for key, item in value.items() if key not in fields}
