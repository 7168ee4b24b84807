"""Describes what the doors read and write themselves, for /openapi.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from graftwork.protocol.answers import OpenAIError
from graftwork.protocol.body import Body
from graftwork.protocol.registry_answers import Problem

#: What a door takes or gives: JSON of a shape, anything of a media type, or no body at all.
Answer = type[BaseModel] | str | None
Content = dict[str, Any]

_PLACE = "#/components/schemas/{model}"
_JSON, _PROBLEM = "application/json", "application/problem+json"
#: What any body may be answered with: wrong, too slow, too large, not said to be what it must be.
_OF_A_BODY = (400, 408, 413, 415)
#: What a door may be answered with before it opens: no key, or not the right one.
_OF_A_KEY = (401, 403)
#: Schemas that some door refers to; filled as the doors are made.
_TOLD: dict[str, type[BaseModel]] = {}


def inference(
    answer: Answer,
    *,
    body: type[Body] | None = None,
    chunk: type[BaseModel] | None = None,
    also: Mapping[int, Answer] = MappingProxyType({}),
    errors: Sequence[int] = (403, 404),
) -> dict[str, Any]:
    """`openapi_extra` of a door under /v1, whose errors are OpenAI's; `chunk` is an event of it where it can stream.

    `also` are answers by other statuses that are not OpenAI's errors, or not only.
    """
    content = _content(answer)
    if chunk is not None:
        content["text/event-stream"] = {"schema": _event(chunk)}
    errors = (*_OF_A_KEY, *errors)
    if body is not None:
        errors = (*errors, *_OF_A_BODY, 410, 422, 429, 451, 500, 503, 504)  # 410 and 451: rules of routes refuse so
    told = {status: _content(one) for status, one in also.items()}
    return _door(body, {200: content, **told}, dict.fromkeys(errors, _content(OpenAIError)))


def ours(
    answers: Mapping[int, Answer], *, body: Answer = None, errors: Sequence[int] = (), for_all: bool = False
) -> dict[str, Any]:
    """`openapi_extra` of any other door, by status, whose errors are problems; `body` may be a media type, too."""
    if not for_all:
        errors = (*_OF_A_KEY, *errors)
    if body is not None:
        errors = (*errors, *_OF_A_BODY)
    told = {status: _content(answer) for status, answer in answers.items()}
    return _door(body, told, dict.fromkeys(errors, _content(Problem, _PROBLEM)))


def describe(app: FastAPI) -> None:
    """Add the schemas of all bodies and answers to what `app` tells of itself; made when first asked for."""
    without = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = without()
            _, made = models_json_schema([(model, "validation") for model in _TOLD.values()], ref_template=_PLACE)
            described["components"] = {"schemas": made["$defs"]}
            for door in (door for path in described["paths"].values() for door in path.values()):
                content = door["responses"].get("422", {}).get("content", {})
                if "HTTPValidationError" in str(content.get(_JSON)):  # what the framework would answer; ours are 400
                    del content[_JSON]
                    if not content:
                        del door["responses"]["422"]
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _door(body: Answer, answers: Mapping[int, Content], errors: Mapping[int, Content]) -> dict[str, Any]:
    responses = {
        str(status): {"description": HTTPStatus(status).phrase, **({"content": content} if content else {})}
        for status, content in sorted({**errors, **answers}.items())
    }
    return {"responses": responses, **({"requestBody": {"required": True, "content": _content(body)}} if body else {})}


def _event(chunk: type[BaseModel]) -> dict[str, Any]:
    """A server-sent event: a chunk, the error that ends the stream, or its end."""
    told = [_content(one)[_JSON]["schema"] for one in (chunk, OpenAIError)]
    data = {"type": "string", "contentMediaType": _JSON, "contentSchema": {"anyOf": told}}
    return {"type": "object", "required": ["data"], "properties": {"data": {"anyOf": [{"const": "[DONE]"}, data]}}}


def _content(what: Answer, media_type: str = _JSON) -> Content:
    if what is None:
        return {}
    if isinstance(what, str):
        return {what: {"schema": {"type": "string"}}}
    _TOLD[what.__name__] = what
    return {media_type: {"schema": {"$ref": _PLACE.format(model=what.__name__)}}}
