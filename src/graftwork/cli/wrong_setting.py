"""say_wrong_setting: where a setting that is wrong was given, and what it must be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

#: What a value must be, by pydantic's name of the error.
_MUST_BE = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "path_type": "a path",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
}


def say_wrong_setting(
    error: Mapping[str, Any], given: Mapping[str, object], environ: Mapping[str, str], names: Sequence[str]
) -> str:
    """One sentence for one of pydantic's errors.

    Args:
        given: what the flags said; they win over `environ`, which wins over graftwork.yaml.
        names: of all settings.
    """
    name = str(error["loc"][0]) if error["loc"] else "settings"
    if error["type"] == "extra_forbidden":
        close = difflib.get_close_matches(name, names, n=1)
        return f"graftwork.yaml: there is no setting {name}." + (f" Did you mean {close[0]}?" if close else "")
    must_be = _MUST_BE.get(error["type"])
    if must_be is None:
        return f"{source_of(name, given, environ)}: {name}: {error['msg']}."
    wanted = must_be.format(**error.get("ctx", {}))
    return f"{source_of(name, given, environ)}: {name} must be {wanted}, not {error['input']!r}."


def say_unreadable(message: str) -> str:
    """One sentence for pydantic-settings' `message` of a variable that is not JSON."""
    found = re.search(r'field "(\w+)"', message)
    if found is None:
        return f"The settings cannot be read: {message}."
    variable = f"GRAFTWORK_{found[1].upper()}"
    return f"""{variable} must be a list in JSON, such as {variable}='["sentiment"]'."""


def source_of(name: str, given: Mapping[str, object], environ: Mapping[str, str]) -> str:
    """Where a setting that is not at its default was given: a flag, a variable, or the file."""
    if given.get(name) is not None:
        return f"--{name.replace('_', '-')}"
    variable = f"GRAFTWORK_{name.upper()}"
    return variable if variable in map(str.upper, environ) else "graftwork.yaml"
