"""Files: evaluations as people write them, in JSON or YAML, and result files of other tools, told apart by content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from graftwork.errors import InvalidRequest
from graftwork.registry.evaluations.hugging_face import MODEL_INDEX, read_eval_results, read_model_index
from graftwork.registry.evaluations.imported import Imported, Json, mapping
from graftwork.registry.evaluations.lm_eval import is_lm_eval, read_lm_eval
from graftwork.registry.yaml_fault import yaml_fault

MAX_BYTES = 64 << 20
#: What PyYAML raises for scalars that are not of the type they claim, and for what nests too deep.
_ODD = (ValueError, LookupError, ArithmeticError, AttributeError, TypeError, RecursionError)


def read_evaluation_file(path: Path) -> Json:
    """The evaluation in a JSON or YAML file.

    Raises:
        InvalidRequest: it cannot be read, or is no object.
    """
    return mapping(_parsed(path), f"{path}: an evaluation")


def read_result_file(path: Path) -> list[Imported]:
    """The evaluations in a result file: lm-evaluation-harness', a model card, or `.eval_results/*.yaml`.

    Sample files of lm-evaluation-harness are found beside their `results_*.json`. Everything that is read was checked
    to be an evaluation.

    Raises:
        InvalidRequest: naming the file, and the place in it, that is not as it must be.
    """
    try:
        found = _read(path)
        for one in found:
            _check(one)
    except InvalidRequest as error:
        raise InvalidRequest(f"{path}: {error.message}", field="file") from error
    except RecursionError as error:
        raise InvalidRequest(f"{path}: it is nested too deeply.", field="file") from error
    return found


def _read(path: Path) -> list[Imported]:
    content = _parsed(path)
    if is_lm_eval(content):
        return read_lm_eval(content, {task: _lines(file) for task, file in _samples(path)})
    if isinstance(content, dict) and MODEL_INDEX in content:
        return read_model_index(content[MODEL_INDEX])
    if isinstance(content, list):
        return read_eval_results(content)
    raise InvalidRequest(
        f"this is no result file of lm-evaluation-harness, no model card with a {MODEL_INDEX} and no list of "
        "evaluation results. `graftwork evaluation add` takes an evaluation of your own.",
        field="file",
    )


def _check(one: Imported) -> None:
    from graftwork.protocol.evaluations import EvaluationBody

    try:
        EvaluationBody.read(json.dumps(one.evaluation).encode())
    except InvalidRequest as error:
        raise InvalidRequest(f"{one.place}: {error.message}", field="file") from error


def _samples(path: Path) -> Iterator[tuple[str, Path]]:
    """(task, file) of `samples_TASK_DATE.jsonl` for a `…_DATE.json`."""
    end = f"_{path.stem.rpartition('_')[2]}.jsonl"
    for file in sorted(path.parent.glob("samples_*.jsonl")):
        if file.name.endswith(end):
            yield file.name.removeprefix("samples_").removesuffix(end), file


def _lines(path: Path) -> Iterator[Json]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield mapping(json.loads(line), f"{path.name}, line {number}:")
                except (ValueError, RecursionError) as error:
                    raise InvalidRequest(f"{path.name}, line {number} is not JSON: {error}.", field="file") from error


def _parsed(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        raise InvalidRequest(f"{path.name} is larger than {MAX_BYTES} bytes.", field="file")
    try:
        written = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            return json.loads(written)
        return yaml.load(_front_matter(written) if path.suffix == ".md" else written, _Loader)
    except (yaml.YAMLError, *_ODD) as error:
        raise InvalidRequest(f"{path.name} cannot be read: {yaml_fault(error)}.", field="file") from error


def _front_matter(card: str) -> str:
    """The YAML between the first two lines `---` of a model card; nothing where there is none."""
    lines = card.splitlines()
    if not lines or lines[0].strip() != "---":
        return ""
    end = next((at for at, line in enumerate(lines[1:], start=1) if line.strip() == "---"), len(lines))
    return "\n".join(lines[1:end])


class _Loader(yaml.SafeLoader):
    """Without aliases: a few lines of them are gigabytes once they are written out."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        return super().compose_node(parent, index)
