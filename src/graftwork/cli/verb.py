"""add_verb: verbs have the global options too, so that `--output` and `--url` may stand before or after."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, get_type_hints

import typer

from graftwork.cli.context import OutputFormat, context_of

Output = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", show_default=False, help="How the result is written to stdout."),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Server to speak to; default GRAFTWORK_URL, else none.")
]


def add_verb(app: typer.Typer, function: Callable[..., None], name: str | None = None, *, local: bool = False) -> None:
    """Make `function`, whose first parameter is `ctx`, a verb of `app`; a local one needs no server."""
    options: dict[str, Any] = {"output": Output} if local else {"output": Output, "url": Url}

    def verb(**given: Any) -> None:
        ctx = given["ctx"]
        said = {option: value for option in options if (value := given.pop(option)) is not None}
        ctx.obj = replace(context_of(ctx), **said)
        function(**given)

    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
    ]
    parameters += [
        inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for option, annotation in options.items()
    ]
    # Typer reads a verb's options off its signature.
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    verb.__doc__ = function.__doc__
    app.command(name or function.__name__)(verb)
