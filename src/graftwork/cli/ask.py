"""`graftwork ask`: one question to one adapter, or to the base; the answer streams."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import short, write
from graftwork.cli.verb import add_verb

if TYPE_CHECKING:
    from graftwork.client import Answer


def add_to(app: typer.Typer) -> None:
    add_verb(app, ask)


def ask(
    ctx: typer.Context,
    reference: Annotated[str, typer.Argument(metavar="REF", help="An adapter's reference, or the base's name.")],
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask; - reads it from stdin.")],
    max_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 256,
    temperature: Annotated[float, typer.Option(help="0 gives the likeliest answer, always the same.")] = 0.0,
    top_p: Annotated[float | None, typer.Option(help="Draw from the likeliest tokens up to this share.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes a drawn answer repeatable.")] = None,
    system: Annotated[str | None, typer.Option(help="A system message before the prompt.")] = None,
) -> None:
    """Ask one version, or the base, and show the answer as it comes; who answered is said on stderr."""
    context = context_of(ctx)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": sys.stdin.read() if prompt == "-" else prompt})
    wanted: dict[str, Any] = {"top_p": top_p, "seed": seed}
    options = {"max_tokens": max_tokens, "temperature": temperature}
    options |= {key: value for key, value in wanted.items() if value is not None}
    with (
        context.client(engine=True) as client,
        client.chat(messages, model=reference, stream=True, **options) as stream,
    ):
        for text in stream:
            if context.output is OutputFormat.TABLE:
                print(text, end="", flush=True)
        answer = stream.answer
    write(asdict(answer), context.output, print)
    _say_who(answer)


def _say_who(answer: Answer) -> None:
    digest, arm = answer.graftwork.get("digest", ""), answer.graftwork.get("arm", "")
    print(
        f"— {answer.model} ({short(digest)}, {arm}), {answer.usage.get('completion_tokens', 0)} tokens",
        file=sys.stderr,
    )
