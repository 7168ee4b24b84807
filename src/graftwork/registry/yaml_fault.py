"""yaml_fault: where a text is not YAML, and why."""

from __future__ import annotations

from yaml.error import MarkedYAMLError


def yaml_fault(error: BaseException, *, lines_before: int = 0) -> str:
    """What PyYAML says of a text, as `line 2: …`, on one line and without its name for the text.

    Args:
        lines_before: of the file that the text is a part of.
    """
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1 + lines_before}: {error.problem}"
    return " ".join(str(error).partition("\n")[0].split())[:300]
