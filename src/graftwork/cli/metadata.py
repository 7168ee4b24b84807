"""Metadata on the command line: `--meta KEY=VALUE` with dotted keys, and `--metadata FILE`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graftwork.cli.yaml_file import read_mapping
from graftwork.errors import InvalidRequest

#: Whose values are JSON where they can be read as such; all others are text.
_JSON = ("training.", "code.dirty")
#: Several values, separated by commas or by repeating the key.
_LISTS = ("language", "merged_from", "parents")
#: Lists of objects, which only a file can say.
_TABLES = ("datasets", "preprocessing")


def read_options(pairs: list[str], file: Path | None) -> dict[str, Any]:
    """The metadata that the options say; the server checks them.

    Raises:
        InvalidRequest: a pair is not KEY=VALUE, contradicts another or needs a file, or the file cannot be read.
    """
    told = read_mapping(file, field="meta") if file is not None else {}
    lists: dict[str, list[str]] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not all(key.split(".")):
            raise InvalidRequest(f"--meta {pair!r} is not KEY=VALUE.", field="meta")
        if (table := key.partition(".")[0]) in _TABLES:
            raise InvalidRequest(
                f"--meta cannot say {table}, which is a list of objects. Write it into a JSON or YAML file, and give "
                "that with --metadata FILE.",
                field="meta",
            )
        if key in _LISTS:
            lists.setdefault(key, []).extend(part.strip() for part in text.split(","))
        _put(told, key, lists.get(key, _value(key, text)))
    return told


def flat(metadata: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and their values, as `--meta` takes them."""
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _value(key: str, text: str) -> Any:
    if key.startswith(_JSON):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _put(told: dict[str, Any], key: str, value: Any) -> None:
    *sections, field = key.split(".")
    for section in sections:
        told = told.setdefault(section, {})
        if not isinstance(told, dict):
            raise InvalidRequest(f"--meta {key}: {section} has a value of its own already.", field="meta")
    told[field] = value
