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
        InvalidRequest: it is neither, or something else than names and values.
    """
    import yaml

    from graftwork.registry.yaml_fault import yaml_fault

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # also a date that is none, lists without end
        raise InvalidRequest(f"{file} is neither YAML nor JSON: {yaml_fault(error)}.", field=field) from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{file} holds no document of names and values.", field=field)
    return found


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
