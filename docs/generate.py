"""Writes the reference pages that are made from the code: `python docs/generate.py`; `--check` only compares."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from graftwork import errors
from graftwork.adapters.kinds import AdapterKind, all_kinds
from graftwork.cli.context import OutputFormat
from graftwork.protocol.errors import ERRORS
from graftwork.protocol.metadata import Metadata
from graftwork.settings import Settings
from graftwork.telemetry import ENGINE_COUNTERS, ENGINE_LABELS, Telemetry

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Made by docs/generate.py from the code; do not edit. -->\n\n"

#: What each of the engine's numbers means; a test holds the keys to `EngineStats`.
ENGINE_NUMBERS = {
    "running": "Rows in the batch now.",
    "waiting": "Rows that wait for their adapter or for a place in the batch.",
    "kv_pages_used": "Pages of keys and values that rows hold, of 64 tokens each.",
    "kv_pages_cached": "Pages that no row holds and that keep what they hold until pages are needed.",
    "kv_pages_total": "Pages of keys and values that there are.",
    "adapters_resident": "Adapter versions in memory.",
    "adapters_pinned": "Adapter versions in memory that may not be evicted now.",
    "adapter_loads": "Times an adapter version was brought into memory.",
    "adapter_evictions": "Times an adapter version left memory.",
    "adapter_bytes": "Bytes of memory that adapter versions hold.",
    "adapter_load_outcomes": "Loads by how they ended: read from the form on disk (`form`), made of files (`files`) or "
    "of other versions (`composed`); `refused`, `damaged`, `unavailable`, or `called_off` as nobody waited any more.",
    "adapter_tier_bytes": "Bytes of adapter versions by tier: in `memory`, on disk as serving forms (`form`) and as "
    "unpacked files (`copy`).",
    "adapter_memory_bytes": "Bytes of memory by version, of the 256 that were used last; `other` is all others.",
    "steps": "Steps that were run.",
    "generated_tokens": "Tokens that were sampled.",
    "prompt_tokens": "Prompt tokens that were computed.",
    "failed_rows": "Rows that ended with an error; their neighbours did not.",
    "preemptions": "Times a row gave up its pages, to be computed again.",
    "prefix_cache_queried_tokens": "Prompt tokens of requests that may begin with cached ones.",
    "prefix_cache_hit_tokens": "Of these, tokens that were cached and not computed.",
    "adapter_kernel_launches": "Launches of adapter kernels; steps of base rows alone have none.",
    "max_distinct_adapters_in_step": "The most different adapters that shared one forward pass.",
}

ARXIV = "https://arxiv.org/abs/"
#: The papers of each kind, and the places where it acts; a test holds them to the kinds' code and contract cases.
PAPERS = {
    "BOTTLENECK": ("1902.00751", "2005.00247", "2110.04366", "2106.04647", "1410.8516"),
    "LORA": ("2106.09685", "2312.03732", "2402.09353"),
    "IA3": ("2205.05638",),
    "ADALORA": ("2303.10512",),
    "LOHA": ("2108.06098",),
    "LOKR": ("2212.10650",),
    "VERA": ("2310.11454",),
    "PREFIX_TUNING": ("2101.00190",),
    "PROMPT_TUNING": ("2104.08691",),
    "P_TUNING": ("2103.10385",),
}
PLACES = {
    "BOTTLENECK": ("attention", "mlp", "embed", "head"),
    "LORA": ("linear", "embed", "head", "score"),
    "IA3": ("linear",),
    "ADALORA": ("linear",),
    "LOHA": ("linear",),
    "LOKR": ("linear",),
    "VERA": ("linear",),
    "PREFIX_TUNING": ("keys",),
    "PROMPT_TUNING": ("embed",),
    "P_TUNING": ("embed",),
}


def cli() -> str:
    """Every command with its arguments and options."""
    from graftwork.cli.main import app

    lines = [
        "# Command line\n",
        "`graftwork` speaks to the server at `--url` (or `GRAFTWORK_URL`); without one, its verbs work on "
        "`GRAFTWORK_HOME` in their own process.",
        "Results go to stdout as one document (`--output table|json|yaml`), everything else to stderr.",
        "Exit codes: 0 ok, 1 refused or failed, 2 wrong usage, 3 `plan` found changes. "
        "Every command has `--help`; settings are on [a page of their own](settings.md).\n",
    ]
    for path, command in _commands(typer.main.get_command(app), "graftwork"):
        lines += [f"## {path}\n", f"{_one_line(command.help)}\n", *_parameters(command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


def _parameters(command: Any) -> Iterator[str]:
    rows = [row for parameter in command.params if (row := _parameter(parameter))]
    if rows:
        yield "| argument or option | meaning |"
        yield "|---|---|"
        yield from rows
        yield ""
    if children := getattr(command, "commands", {}):
        yield f"Commands: {', '.join(f'`{name}`' for name in children)}.\n"


def _parameter(parameter: Any) -> str | None:
    if parameter.name == "help":
        return None
    if parameter.param_type_name == "argument":
        name, notes = parameter.metavar or parameter.name.upper(), [] if parameter.required else ["optional"]
    else:
        name = ", ".join(parameter.opts)
        name += "" if parameter.is_flag else f" {_value_of(parameter)}"
        notes = []
        if parameter.default is not None and parameter.default is not False and not parameter.is_flag:
            notes.append(f"default `{getattr(parameter.default, 'value', parameter.default)}`")
    if getattr(parameter, "envvar", None):
        notes.append(f"or `{parameter.envvar}`")
    note = f" ({'; '.join(notes)})" if notes else ""
    return _row(f"`{name}`", _one_line(parameter.help) + note)


def _value_of(parameter: Any) -> str:
    if parameter.name == "output":
        return "|".join(OutputFormat)
    return str(parameter.metavar or parameter.name.upper())


def settings() -> str:
    """Every setting with its type, default and meaning."""
    from graftwork.cli.main import app

    serve = typer.main.get_command(app).commands["serve"]  # type: ignore[attr-defined]
    flags = {parameter.name: parameter.opts[0] for parameter in serve.params}
    lines = [
        "# Settings\n",
        "A setting is taken from the first of these that has it: the flag of a command, the variable "
        "`GRAFTWORK_<NAME>`, the line `<name>:` of `graftwork.yaml` in the working directory, its default. "
        "Bad values, and unknown settings in the file, end the start with a message that names them.\n",
        'Lists in variables are written as JSON: `GRAFTWORK_PIN=\'["sentiment", "support:1.0.0"]\'`. '
        "`GRAFTWORK_URL` is not a setting of the server: it tells the command line which server to speak to.\n",
        "| setting | flag of `serve` | type | default | meaning |",
        "|---|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        flag = f"`{flags[name]}`" if name in flags else ""
        lines.append(_row(f"`{name}`", flag, _type_of(field), _default_of(name, field), field.description or ""))
    return "\n".join(lines) + "\n"


def _type_of(field: Any) -> str:
    kinds = {Path: "path", str: "text", int: "whole number", float: "number", bool: "true or false"}
    arguments = [one for one in typing.get_args(field.annotation) if one not in (type(None), ...)]
    if typing.get_origin(field.annotation) is typing.Literal:
        return ", ".join(f"`{one}`" for one in arguments)
    if typing.get_origin(field.annotation) is tuple:
        return f"list of {kinds[arguments[0]]}"
    name = kinds[arguments[0] if arguments else field.annotation]
    return name + "".join(f", {words} {bound}" for words, bound in _bounds(field))


def _bounds(field: Any) -> Iterator[tuple[str, object]]:
    for rule in field.metadata:
        for attribute, words in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
            if (bound := getattr(rule, attribute, None)) is not None:
                yield words, bound


def _default_of(name: str, field: Any) -> str:
    if name == "home":
        return "the user's data folder"
    if field.default in (None, ()):
        return "–"
    return f"`{field.default}`"


def metrics() -> str:
    """Every metric with its type and labels."""
    lines = [
        "# Metrics\n",
        "`GET /metrics` answers in Prometheus' text format. Counters also have a `…_created` line, histograms have "
        "`…_bucket`, `…_sum` and `…_count`. Times are in seconds, sizes in bytes.\n",
        "The label `model` is a version (`sentiment:1.1.0`) or the base's name; after 256 different values further "
        "ones are counted as `other`. The label `door` is the path's template.\n",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    telemetry = Telemetry()
    telemetry.watch_rollouts(lambda: ())
    for family in telemetry.registry.collect():
        collector = telemetry.registry._names_to_collectors.get(family.name, family)
        labels = ", ".join(f"`{label}`" for label in getattr(collector, "_labelnames", ()))
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not family.name.endswith("_created"):
            lines.append(_row(f"`{name}`", family.type, labels, family.documentation))
    for name, meaning in ENGINE_NUMBERS.items():
        counter = name in ENGINE_COUNTERS
        full = f"graftwork_engine_{name}{'_total' if counter else ''}"
        label = f"`{ENGINE_LABELS[name]}`" if name in ENGINE_LABELS else ""
        lines.append(_row(f"`{full}`", "counter" if counter else "gauge", label, meaning))
    lines.append(
        "\nThe engine's numbers are there once the base is loaded; `GET /api/v1/engine` gives the same as JSON."
    )
    return "\n".join(lines) + "\n"


def error_page() -> str:
    """Every error with its HTTP status, its code and the exit code of the command line."""
    kinds = {kind.error: kind for kind in ERRORS}
    lines = [
        "# Errors\n",
        "One tree for all doors: `graftwork.errors` in Python, a status and a `code` over HTTP, a message on stderr "
        "and an exit code on the command line. `Client` raises the class that the server meant.\n",
        "```text",
        *_tree(errors.GraftworkError),
        "```\n",
        "| class | HTTP | `code` | exit code | means |",
        "|---|---|---|---|---|",
    ]
    for error in _classes(errors.GraftworkError):
        kind = kinds[error]
        exit_code = "2 for a wrong flag, setting or URL, else 1" if error is errors.InvalidRequest else "1"
        meaning = _one_line(inspect.getdoc(error))
        lines.append(_row(f"`{error.__name__}`", str(kind.status), f"`{kind.code}`", exit_code, meaning))
    lines += [
        "\nA body over `max_body_bytes` or `max_blob_bytes` is an `InvalidRequest` with status 413. 429 and 503 carry "
        "`Retry-After`. What is none of these is status 500 with code `internal_error`: the server's log has the "
        "reason under the answer's `X-Graftwork-Request`, the answer does not.\n",
        "On `/v1` the body is OpenAI's:\n",
        "```json",
        '{"error": {"message": "The model \'nope\' does not exist. …", "type": "invalid_request_error", '
        '"param": "model", "code": "model_not_found"}}',
        "```\n",
        "Everywhere else it is a problem document (RFC 9457, `application/problem+json`), with `field` or `problems` "
        "where they help:\n",
        "```json",
        '{"type": "about:blank", "title": "Conflict", "status": 409, "detail": "…", "code": "conflict"}',
        "```",
    ]
    return "\n".join(lines) + "\n"


def _classes(error: type[errors.GraftworkError]) -> Iterator[type[errors.GraftworkError]]:
    yield error
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _classes(child)


def _tree(error: type[errors.GraftworkError], before: str = "") -> Iterator[str]:
    yield f"{before}{error.__name__}"
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child, before + "  ")


def metadata() -> str:
    """Every field of a version's metadata with its type and meaning."""
    lines = [
        "# Metadata of a version\n",
        "Said at the push (`--meta KEY=VALUE` with dotted keys, `--metadata FILE`, `metadata` in the body or in "
        "Python), checked against this table at every door, and never changed afterwards. Every field may be left out; "
        "texts have at most 1024 characters, a description 16384. An unknown field is refused (422, with its name); "
        "your own go under `labels`. What older versions were given stays as it was and can be read.\n",
        "`base.weights_digest` and everything under `adapter` is filled in from the base and the files; whoever says "
        "something else is refused. When a version was made and who pushed it (`created_at`, `created_by`) is the "
        "server's word.\n",
        "| field | type | meaning |",
        "|---|---|---|",
    ]
    lines += [_row(f"`{name}`", kind, meaning) for name, kind, meaning in _fields(Metadata.model_json_schema())]
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Dotted names, JSON types and descriptions of all fields below an object."""
    inner = schema.get("$defs", {})

    def walk(shape: dict[str, Any], before: str) -> Iterator[tuple[str, str, str]]:
        for name, field in shape["properties"].items():
            kinds = [one for one in field.get("anyOf", [field]) if one.get("type") != "null"]
            items = kinds[0].get("items", {})
            place = kinds[0].get("$ref") or items.get("$ref")
            many = "[]" if "$ref" in items else ""
            if place:
                yield from walk(inner[place.rpartition("/")[2]], f"{before}{name}{many}.")
            else:
                yield f"{before}{name}", " or ".join(map(_json_type, kinds)), field["description"]

    return walk(schema, "")


def _json_type(schema: dict[str, Any]) -> str:
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    if schema["type"] == "array":
        return f"list of {_json_type(schema['items'])}"
    if schema["type"] == "object":
        values = schema.get("additionalProperties")
        return f"object of {_json_type(values)}" if isinstance(values, dict) else "object"
    return words[schema["type"]]


def kinds() -> str:
    """Every kind of adapter with its features, served or refused, and PEFT's types that are no kind here."""
    found = all_kinds()
    lines = [
        "# Kinds of adapters\n",
        "What is served is answered as the kind's own library answers, alone and in a batch with every other kind; a "
        "test holds each served feature to that library. What is refused is refused at the push, by the name of its "
        "field or tensor. How folders are read is on [a page of its own](../howto/bring-an-adapter.md), what the "
        "places are in [architecture](../architecture.md#where-adapters-act).\n",
        "| kind | `peft_type` | what it is | acts at | papers |",
        "|---|---|---|---|---|",
    ]
    for key, kind in found.items():
        papers = ", ".join(f"[{paper}]({ARXIV}{paper})" for paper in PAPERS[key])
        places = ", ".join(f"`{place}`" for place in PLACES[key])
        lines.append(_row(kind.name, _written_by(key), _sentence(kind), places, papers))
    lines += [
        "\n## Features\n",
        "| kind | feature | |",
        "|---|---|---|",
        *(_row(kind.name, one, state) for kind in found.values() for one, state in kind.features.items()),
        "\n## Everything else\n",
        "Any other `peft_type` is refused by its name. Of those that PEFT knows:",
        f"{', '.join(f'`{key}`' for key in _other_types(found))}.",
    ]
    return "\n".join(lines) + "\n"


def _written_by(key: str) -> str:
    return "none; written by the `adapters` library" if key == "BOTTLENECK" else f"`{key}`"


def _sentence(kind: AdapterKind) -> str:
    """What the class says that it is, without the words before the colon."""
    said = _one_line(inspect.getdoc(type(kind))).partition(". ")[0].rstrip(".")
    return said.partition("`: ")[2] or said


def _other_types(found: Iterable[str]) -> list[str]:
    from peft import PeftType

    return sorted(one.value for one in PeftType if one.value not in found)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def schemas() -> dict[str, str]:
    """The JSON Schema of each kind of document that is applied, by file."""
    from graftwork.declared.kinds import KINDS, schema_of

    return {f"schemas/{word}.json": json.dumps(schema_of(word), indent=2) + "\n" for word in KINDS}


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli,
    "settings.md": settings,
    "metrics.md": metrics,
    "errors.md": error_page,
    "kinds.md": kinds,
    "metadata.md": metadata,
}


def stats_fields() -> set[str]:
    """The names of the engine's numbers; needs torch."""
    from graftwork.engine.engine_stats import EngineStats

    return {field.name for field in dataclasses.fields(EngineStats)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when a page is out of date")
    check: bool = parser.parse_args().check
    stale = []
    for name, text in {name: NOTE + page() for name, page in PAGES.items()}.items() | schemas().items():
        path = REFERENCE / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(f"Out of date: {', '.join(stale)}. Run: python docs/generate.py")


if __name__ == "__main__":
    main()
