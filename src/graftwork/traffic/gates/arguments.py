"""Arguments: an analysis template with the values that are given where it is used; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from graftwork.errors import InvalidRequest
from graftwork.protocol.arguments import filled

if TYPE_CHECKING:
    from graftwork.protocol.analysis import AnalysisSpec
    from graftwork.protocol.analysis_template import TemplateSpec
    from graftwork.protocol.arguments import GivenArgument

#: Names and values, in their order.
Arguments = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Filled:
    """A template's analysis, and what its arguments stand for there: as they were given, then those left to it."""

    spec: AnalysisSpec
    args: Arguments


def given(args: Iterable[GivenArgument]) -> Arguments:
    """As a document gives them."""
    return tuple((one.name, one.value) for one in args)


def fill(template: str, spec: TemplateSpec, args: Arguments) -> Filled:
    """The analysis of a template with the values that are given.

    Raises:
        InvalidRequest: an argument is unknown, given twice or missing, or what comes of the values is no analysis;
            `field` is `args`, or one of its values.
    """
    values: dict[str, str] = {}
    declared = {one.name for one in spec.args}
    for at, (name, value) in enumerate(args):
        if name not in declared:
            known = f"its arguments are {', '.join(sorted(declared))}" if declared else "it takes no arguments"
            raise InvalidRequest(f"The template {template} has no argument {name}; {known}.", field=f"args.{at}.name")
        if name in values:
            raise InvalidRequest(f"The argument {name} of {template} is given twice.", field=f"args.{at}.name")
        values[name] = value
    for name, value in spec.defaults.items():
        values.setdefault(name, value)
    if missing := [one.name for one in spec.args if one.name not in values]:
        raise InvalidRequest(
            f"The template {template} needs a value for {', '.join(missing)}: give {{name: {missing[0]}, value: …}}.",
            field="args",
        )
    try:
        return Filled(spec.analysis(values), tuple(values.items()))
    except ValidationError as error:
        raise _unfit(template, spec, values, [name for name, _ in args], error) from None


def told(args: Arguments) -> list[dict[str, str]]:
    """As documents and answers have them."""
    return [{"name": name, "value": value} for name, value in args]


def _unfit(
    template: str, spec: TemplateSpec, values: dict[str, str], names: list[str], error: ValidationError
) -> InvalidRequest:
    """What comes of the values, where it goes wrong: by metric and field."""
    from graftwork.protocol.analysis_template import said
    from graftwork.protocol.body import complaint

    first = error.errors(include_url=False)[0]
    there = spec.at(first["loc"])
    at = next((f"args.{names.index(name)}.value" for name in there if name in names), "args")
    where = _where(spec, values, first["loc"])
    return InvalidRequest(f"The template {template} with {said(there, values)}: {where} {complaint(first)}.", field=at)


def _where(spec: TemplateSpec, values: dict[str, str], place: Iterable[Any]) -> str:
    """`metric success: successCondition`."""
    match tuple(place):
        case ("metrics", int(at), *rest):
            name = filled(spec.metrics[at].get("name", at), values, lambda place: False)
            return f"metric {name}{': ' if rest else ''}{'.'.join(map(str, rest))}"
        case other:
            return f"spec{'.' if other else ''}{'.'.join(map(str, other))}"
