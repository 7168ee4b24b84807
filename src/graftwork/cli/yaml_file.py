"""Files that a verb is given: what is wrong in one is told with its name; and YAML with one mapping in it."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graftwork.errors import InvalidRequest


def read_mapping(file: Path, *, field: str) -> dict[str, Any]:
    """What the file holds, in YAML or JSON.

    Raises:
        InvalidRequest: it is neither, or something else than names and values, or they come twice.
    """
    from graftwork.cli.yaml_documents import Fault, read_text

    try:
        found = [one.value for one in read_text(file.read_bytes())]
    except Fault as fault:
        raise InvalidRequest(f"{file} is neither YAML nor JSON: line {fault.line}: {fault}.", field=field) from fault
    if len(found) > 1:
        raise InvalidRequest(f"{file} holds {len(found)} documents; one is read here.", field=field)
    if not found or not isinstance(found[0], dict):
        raise InvalidRequest(f"{file} holds no document of names and values.", field=field)
    mapping: dict[str, Any] = found[0]
    return mapping


@contextmanager
def naming(file: Path | None, *, only: Container[str] | None = None, unless: Container[str] = ()) -> Iterator[None]:
    """What is wrong is told with the name of the file that it stands in, where one was given.

    Args:
        only: the fields that the file is; all but those in `unless` when not given.
    """
    try:
        yield
    except InvalidRequest as error:
        field = (error.field or "").partition(".")[0]
        if file is not None and (field not in unless if only is None else field in only):
            error.args = (f"{file}: {error.message}",)
        raise
