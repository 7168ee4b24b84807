"""The AnalysisTemplate document: an analysis, in which arguments may stand for literals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from graftwork.protocol.analysis import MAX_METRICS, AnalysisSpec, MetricPart
from graftwork.protocol.arguments import MAX_ARGS, DeclaredArgument, Fillable, Place, filled, names_in, texts_in
from graftwork.protocol.body import ReadAs, complaint
from graftwork.protocol.duration import Duration, read_duration
from graftwork.protocol.resource import Document, Spec

#: Texts of a template that hold arguments: more than all that a template can say.
MAX_TEXTS = 1024
#: What is said of a text where there must be more than a literal: no value can mend that.
_NO_LITERAL = ("model_type", "dict_type", "list_type")
_METRICS = Field(min_length=1, max_length=MAX_METRICS)


def _metric(metric: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """As an analysis writes it, where it holds no argument; what cannot be read is told with all of the rest."""
    if any(texts_in(metric)):
        return metric
    try:
        read = MetricPart.model_validate(metric)
    except ValidationError:
        return metric
    return read.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


def _length(value: JsonValue) -> JsonValue:
    """In seconds, where it is one and no argument."""
    try:
        return read_duration(value)
    except ValueError:
        return value


_Metric = Annotated[dict[str, JsonValue], AfterValidator(_metric)]


class TemplateSpec(Fillable, Spec):
    """An analysis. `{{args.NAME}}` may stand in each text of `metrics`, `alpha` and `settle`, for all or a part of it.

    What comes of that is read as though it stood there; where a number is due, a text that was an argument and nothing
    else is read as one. What holds an argument without a value is read where the template is used.
    """

    args: list[DeclaredArgument] = Field(default_factory=list, max_length=MAX_ARGS)
    metrics: Annotated[list[_Metric], _METRICS, ReadAs(Annotated[list[MetricPart], _METRICS])]
    alpha: Annotated[JsonValue, ReadAs(Annotated[float, Field(ge=1e-9, le=0.5)])] = 0.05
    settle: Annotated[JsonValue, AfterValidator(_length), ReadAs(Duration)] = 0.0

    @property
    def defaults(self) -> dict[str, str]:
        """Values of the arguments that have one."""
        return {one.name: one.value for one in self.args if one.value is not None}

    @property
    def body(self) -> dict[str, JsonValue]:
        """What is said of the analysis, as it was written."""
        return {name: getattr(self, name) for name in ("metrics", "alpha", "settle") if name in self.model_fields_set}

    def analysis(self, values: Mapping[str, str]) -> AnalysisSpec:
        """The analysis with these values of arguments.

        Raises:
            ValidationError: what comes of it is none; places are those of the template.
        """
        body = self.body
        try:
            return AnalysisSpec.model_validate(filled(body, values, lambda place: False))
        except ValidationError as error:
            wrong = {one["loc"] for one in error.errors(include_url=False)}
        return AnalysisSpec.model_validate(filled(body, values, wrong.__contains__))

    def at(self, place: Place) -> tuple[str, ...]:
        """The arguments that a place of the template, or what is in it, names."""
        size = len(place)
        return tuple(dict.fromkeys(name for there, names in self._named if there[:size] == place for name in names))

    @cached_property
    def _named(self) -> tuple[tuple[Place, tuple[str, ...]], ...]:
        """The places of texts with arguments, and which."""
        found = []
        for place, text in islice(texts_in(self.body), MAX_TEXTS + 1):
            try:
                found.append((place, names_in(text)))
            except ValueError as error:
                raise _wrong(place, str(error)) from None
        if len(found) > MAX_TEXTS:
            raise _wrong(("metrics",), f"has more than {MAX_TEXTS} texts with arguments")
        return tuple(found)

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        declared, used = self._declared(), self._used()
        for at, name in enumerate(declared):
            if name not in used:
                raise _wrong(("args", at), f"is declared, and nothing names {{{{args.{name}}}}}")
        try:
            self.analysis(self.defaults)
        except ValidationError as error:
            errors = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
            if (first := next(filter(None, map(self._told, errors)), None)) is not None:
                raise ValidationError.from_exception_data("AnalysisTemplate", [first]) from None
        return self

    def _declared(self) -> list[str]:
        names = [one.name for one in self.args]
        for at, name in enumerate(names):
            if name in names[:at]:
                raise _wrong(("args", at, "name"), f"is {name} a second time")
        return names

    def _used(self) -> set[str]:
        declared = {one.name for one in self.args}
        used: set[str] = set()
        for place, names in self._named:
            if missing := [name for name in names if name not in declared]:
                raise _wrong(place, f"names the argument {missing[0]}, which spec.args does not declare")
            used.update(names)
        return used

    def _told(self, error: Any) -> InitErrorDetails | None:
        """What is wrong whatever values are given; None for what is to be seen when they are."""
        place = error["loc"]
        names = self.at(place) if error["type"] != "extra_forbidden" else ()
        if names and error["type"] in _NO_LITERAL and isinstance(error["input"], str):
            return _detail(place, f"holds {{{{args.{names[0]}}}}}, which stands for a text or a number only")
        if names and not set(names) <= set(self.defaults):
            return None
        if names:
            return _detail(place, f"{complaint(error)}, with {said(names, self.defaults)}")
        return InitErrorDetails(type=error["type"], loc=place, input=error["input"], ctx=error.get("ctx", {}))


class AnalysisTemplate(Document):
    """By what a rollout's arms are judged."""

    kind: Literal["AnalysisTemplate"]
    spec: TemplateSpec


def said(names: tuple[str, ...], values: Mapping[str, str]) -> str:
    """`floor = '0.9'`, for people."""
    return ", ".join(f"{name} = {values[name]!a}" for name in names if name in values)


def _wrong(place: Place, message: str) -> ValidationError:
    return ValidationError.from_exception_data("AnalysisTemplate", [_detail(place, message)])


def _detail(place: Place, message: str) -> InitErrorDetails:
    return InitErrorDetails(type="value_error", loc=place, input=None, ctx={"error": ValueError(message)})
