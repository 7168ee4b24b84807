"""RouteResource: the document that a route is, as somebody writes it; `resource_answers.py` has what the doors add."""

from __future__ import annotations

from datetime import time
from functools import lru_cache
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import SchemaError, SchemaValidator, core_schema

from graftwork.protocol.languages import LANGUAGE
from graftwork.protocol.resource import Document, Resource, Spec

MAX_NAME = 128
MAX_RULES = 1000
MAX_MATCHES = 16  # of one rule
MAX_VALUES = 64  # of one condition
MAX_TARGETS = 16  # of one rule
MAX_HEADERS = 8  # of one match
MAX_WINDOWS = 8  # of one match
MAX_WEIGHT = 1_000_000
MAX_VALUE = 256
MAX_MESSAGE = 2048
MAX_PROMPT = 32 << 10
#: Of a whole route: each costs something in every request that it decides.
MAX_HEADER_NAMES, MAX_REGEXES, MAX_ZONES, MAX_ALL_MATCHES = 32, 8, 8, 2000
MAX_SPEC_BYTES = 512 << 10
#: Of a header, for a regular expression to be tried: a large one takes 2 ms for so many.
MAX_SEARCHED = 1024

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TOKEN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
_CLOCK = r"^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$"


def one_or_many(value: Any) -> Any:
    """`fr` is written for `[fr]`."""
    return [value] if isinstance(value, str) else value


def language(text: str) -> str:
    """A language tag (RFC 5646), or a range of them; raises ValueError."""
    if not LANGUAGE.fullmatch(text):
        raise ValueError(f"is {text[:40]!a}, which is no language tag such as de or de-CH")
    return text


@lru_cache(16)  # once for the schema and once for the index
def compiled(pattern: str) -> SchemaValidator:
    """A regular expression in time linear to the text, whatever it is (Rust's `regex`); raises ValueError."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        why = str(error).splitlines()[-1].strip()
        raise ValueError(
            f"is no regular expression that is served (no lookaround, no back references): {why}"
        ) from None


def _pattern(text: str) -> str:
    compiled(text)
    return text


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # a zone that is not there is a KeyError
        raise ValueError(f"is {name[:40]!a}, which is no time zone such as Europe/Berlin") from None
    return name


Value = Annotated[str, Field(min_length=1, max_length=MAX_VALUE)]
_Many = Annotated[list[Value], Field(min_length=1, max_length=MAX_VALUES)]
Values = Annotated[_Many, BeforeValidator(one_or_many, json_schema_input_type=Value | _Many)]
_Tags = Annotated[list[Annotated[Value, AfterValidator(language)]], Field(min_length=1, max_length=MAX_VALUES)]
Tags = Annotated[_Tags, BeforeValidator(one_or_many, json_schema_input_type=Value | _Tags)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
ClockTime = Annotated[str, Field(pattern=_CLOCK)]


class HeaderMatch(Resource):
    """What one header of the request must be; of several headers of one name, the first."""

    name: str = Field(max_length=128, pattern=_TOKEN)
    exact: Values | None = None
    prefix: Value | None = None
    regex: Annotated[Value, AfterValidator(_pattern)] | None = None
    present: bool | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(one is not None for one in (self.exact, self.prefix, self.regex, self.present)) != 1:
            raise ValueError("must have one of exact, prefix, regex and present")
        return self


class Window(Resource):
    """Hours of some days in a time zone; one that ends before it begins goes on into the next day."""

    zone: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_zone)]
    days: list[Day] = Field(default=list(DAYS), min_length=1, max_length=7)
    begin: ClockTime = Field(default="00:00", alias="from")
    end: ClockTime = Field(default="24:00", alias="to")

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.begin in (self.end, "24:00") or self.end == "00:00":
            raise ValueError(f"goes from {self.begin} to {self.end}; a whole day is from 00:00 to 24:00")
        return self


class Match(Resource):
    """What a request must be: all that is given, of each list any."""

    task: Values | None = None
    tenant: Values | None = None
    user: Values | None = None
    key: Values | None = None
    session: Values | None = None
    locale: Tags | None = None
    region: Values | None = None
    headers: list[HeaderMatch] = Field(default=[], max_length=MAX_HEADERS)
    times: list[Window] = Field(default=[], max_length=MAX_WINDOWS)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError("is empty; a rule for every request has no matches")
        names = [one.name.lower() for one in self.headers]
        if len(set(names)) < len(names):
            raise ValueError("names one header twice; give what it may be in one place")
        return self


class Target(Resource):
    """One arm: the version that answers, by a reference that is resolved for each request."""

    reference: str = Field(min_length=1, max_length=512)
    weight: int | None = Field(default=None, ge=1, le=MAX_WEIGHT)
    arm: Name | None = None


class Refusal(Resource):
    """What the request is answered with instead."""

    status: Literal[403, 404, 410, 429, 451, 503] = 403
    message: str = Field(min_length=1, max_length=MAX_MESSAGE)


class Range(Resource):
    """From `min` to `max`, both included."""

    min: float | None = Field(default=None, ge=0, le=2)
    max: float | None = Field(default=None, ge=0, le=2)

    @model_validator(mode="after")
    def _upwards(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"goes from {self.min:g} to {self.max:g}")
        return self


class Limits(Resource):
    """What a request may ask for at most; one that asks for more is refused."""

    max_tokens: int | None = Field(default=None, ge=1, lt=2**31)
    temperature: Range | None = None
    top_p: Range | None = None


class Defaults(Resource):
    """What holds where the request does not say, and limits of what it says."""

    system_prompt: str | None = Field(default=None, min_length=1, max_length=MAX_PROMPT)
    companions: Literal["adapter", "base"] | None = None
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    limits: Limits = Field(default_factory=Limits)


class Rule(Resource):
    """When it holds, and the one thing that it then does: arms, a refusal, or on to the next rule."""

    name: Name | None = None
    matches: list[Match] = Field(default=[], max_length=MAX_MATCHES)
    defaults: Defaults | None = None
    targets: list[Target] | None = Field(default=None, min_length=1, max_length=MAX_TARGETS)
    refuse: Refusal | None = None
    next: Literal[True] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        if sum(one is not None for one in (self.targets, self.refuse, self.next)) != 1:
            raise ValueError("must do one of targets, refuse and next")
        weighted = {one.weight is not None for one in self.targets or ()}
        if len(weighted) > 1:
            raise ValueError("has weights for some targets; give all a weight, or none for equal shares")
        return self


class RouteSpec(Spec):
    """Rules in order; the first that matches is the one."""

    rules: list[Rule] = Field(min_length=1, max_length=MAX_RULES)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        matches = [match for rule in self.rules for match in rule.matches]
        headers = [one for match in matches for one in match.headers]
        for what, found, most in (
            ("header names", {one.name.lower() for one in headers}, MAX_HEADER_NAMES),
            ("regular expressions", {one.regex for one in headers if one.regex}, MAX_REGEXES),
            ("time zones", {one.zone for match in matches for one in match.times}, MAX_ZONES),
        ):
            if len(found) > most:
                raise ValueError(f"has {len(found)} different {what}; a route may have {most}")
        if len(matches) > MAX_ALL_MATCHES:
            raise ValueError(f"has {len(matches)} matches in all; a route may have {MAX_ALL_MATCHES}")
        return self


class RouteResource(Document):
    """A route."""

    kind: Literal["Route"]
    spec: RouteSpec


def minutes_of(text: str) -> int:
    """Minutes since midnight of a `ClockTime`."""
    return 24 * 60 if text == "24:00" else (at := time.fromisoformat(text)).hour * 60 + at.minute
