"""check_spec: whether a task can be used as it stands, as far as that can be told without running anything of it."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import TemplateError

from graftwork.adapters.companions.chat_template import syntax_problem, unknown_names
from graftwork.errors import InvalidRequest
from graftwork.protocol.tasks import FieldPart, TaskSpec
from graftwork.registry.reference import parse_reference
from graftwork.traffic.tasks.fields import problem_of

#: The variable that every template has: the input itself.
TEXT = "text"


def check_spec(spec: TaskSpec) -> None:
    """Make sure that its reference, its templates and its fields mean something; they are parsed, and nothing is run.

    Raises:
        InvalidRequest: naming what does not.
    """
    if spec.adapter is not None:
        try:
            parse_reference(spec.adapter)
        except InvalidRequest as error:
            raise InvalidRequest(f"spec.adapter is no reference: {error.message}", field="spec.adapter") from error
    if TEXT in spec.fields:
        raise InvalidRequest("spec.fields declares text, which is the input itself.", field="spec.fields.text")
    for where, template in spec.prompt.templates:
        _check_template(where, template, spec)
    for name, part in spec.fields.items():
        for problem in _field_problems(part):
            raise InvalidRequest(f"spec.fields.{name} {problem}.", field=f"spec.fields.{name}")


def _check_template(where: str, template: str, spec: TaskSpec) -> None:
    if (problem := syntax_problem(template)) is not None:
        raise InvalidRequest(f"{where} is no template: {problem}.", field=where)
    try:
        unknown = unknown_names(template) - {TEXT, *spec.fields}
    except (TemplateError, RecursionError) as error:
        raise InvalidRequest(f"{where} is no template: {error}.", field=where) from error
    if unknown:
        raise InvalidRequest(
            f"{where} reads {min(unknown)}, which is neither text nor one of spec.fields.", field=where
        )


def _field_problems(part: FieldPart) -> Iterator[str]:
    for value in part.enum or ():
        if (problem := problem_of(part, value)) is not None:
            yield f"has in its enum what {problem}"
    if part.default is not None and (problem := problem_of(part, part.default)) is not None:
        yield f"has a default that {problem}"
