"""Model card: a part that is generated from the facts, and whatever people wrote around it, which stays.

The form is the Hugging Face Hub's (huggingface.co/docs/hub/model-cards): YAML front matter above Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from graftwork.registry.cards.facts import Facts, Measured
from graftwork.registry.documents.front_matter import read_card, write_card

BEGIN: Final = "<!-- graftwork: begin of what is generated; it is written anew whenever the card is shown -->"
END: Final = "<!-- graftwork: end of what is generated -->"
_BEGINS, _ENDS = "<!-- graftwork: begin", "<!-- graftwork: end"
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#])")


def model_card(facts: Facts, written: bytes | None) -> str:
    """The card of a version, around what people wrote.

    What the registry knows, a written card cannot contradict: these fields of its front matter are written anew. All
    others, and all text outside the marked part, stay; tags are those of both.

    Raises:
        InvalidRequest: what people wrote is no model card.
    """
    own, text = read_card(written) if written is not None else ({}, "")
    known = _front_matter(facts)
    matter = {**own, **known, "tags": _tags(known["tags"], own.get("tags"))}
    return write_card(matter, f"\n{_generated(facts)}\n\n{_own(text).strip()}".rstrip() + "\n")


def _own(text: str) -> str:
    """The text without what was generated of it; a beginning without an end is text like any other."""
    kept, at = [], 0
    while (begin := text.find(_BEGINS, at)) >= 0 and (end := text.find(_ENDS, begin)) >= 0:
        if (close := text.find("-->", end)) < 0:
            break
        kept.append(text[at:begin])
        at = close + len("-->")
        while text.startswith("\n", at):
            at += 1
    return "".join([*kept, text[at:]])


def _front_matter(facts: Facts) -> dict[str, Any]:
    metrics = sorted({name for one in _benchmarks(facts) for name in one.metrics})
    tags = (facts.task, facts.version.kind.lower(), "graftwork")
    matter = {
        "license": facts.license,
        "language": list(facts.languages),
        "library_name": "peft",
        "base_model": facts.base_model,
        "base_model_relation": "adapter",
        "pipeline_tag": facts.pipeline,
        "tags": [tag for tag in tags if tag],
        "datasets": [dataset.name for dataset in facts.datasets],
        "metrics": metrics,
        "model-index": _model_index(facts),
    }
    return {key: value for key, value in matter.items() if value}


def _tags(known: Sequence[str], own: object) -> list[str]:
    written = [tag for tag in own if isinstance(tag, str)] if isinstance(own, list) else []
    return list(dict.fromkeys([*written, *known]))


def _model_index(facts: Facts) -> list[dict[str, Any]]:
    task = {"type": facts.pipeline or "other"}
    results = [
        {
            "task": task,
            "dataset": {"name": one.name, "type": one.name, **({"split": one.split} if one.split else {})},
            "metrics": [{"name": name, "type": name, "value": value} for name, value in sorted(one.metrics.items())],
        }
        for one in _benchmarks(facts)
    ]
    return [{"name": facts.version.label, "results": results}] if results else []


def _benchmarks(facts: Facts) -> list[Measured]:
    """What the Hub calls results; latencies and numbers of a business are none."""
    return [one for one in facts.measured if one.family == "task" and one.metrics]


def _generated(facts: Facts) -> str:
    version = facts.version
    parts = [BEGIN, f"# {_plain(version.label)}", *([_plain(facts.description)] if facts.description else [])]
    rows = {
        "Kind": f"{version.kind}, rank {version.rank}",
        "Base": f"{facts.base_model} (weights `{version.base_digest}`)",
        "Digest": f"`{version.digest}`",
        "Author": _plain(facts.author or ""),
        "Code": _plain(facts.code or ""),
        "Registered": f"{version.created_at} by {_plain(version.created_by)}",
        "Data": ", ".join(_dataset(dataset.name, dataset.digest) for dataset in facts.datasets),
    }
    parts.append(_table(("", ""), ((name, cell) for name, cell in rows.items() if cell)))
    if facts.hyperparameters:
        parameters = ((_plain(name), _value(value)) for name, value in facts.hyperparameters.items())
        parts += ["## Training", _table(("hyper-parameter", "value"), parameters)]
    if facts.measured:
        head = ("evaluation", "split", "metric", "value", "source")
        parts += ["## Evaluation", _table(head, (row for one in facts.measured for row in _rows(one)))]
    return "\n\n".join([*parts, END])


def _rows(one: Measured) -> Iterable[tuple[str, ...]]:
    for name, value in sorted(one.metrics.items()):
        yield _plain(one.name), one.split, _plain(name), f"{value:.6g}", one.source


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _dataset(name: str, digest: str | None) -> str:
    return _plain(name) + (f" ({_plain(digest)})" if digest else "")


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{_plain(key)}={_value(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_value, value))
    return _plain(value)


def _plain(value: object) -> str:
    """One line of text that is no Markdown and no HTML, whoever wrote it."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(value).split()))
