"""`graftwork ask`: one question to one adapter, or to the base; the answer streams."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.base import prepared
from graftwork.cli.context import Context, OutputFormat, context_of
from graftwork.cli.output import short, write
from graftwork.cli.verb import add_verb
from graftwork.cli.waiting import status, wait_until_ready
from graftwork.errors import NotFound, UnknownModel

if TYPE_CHECKING:
    from graftwork.client import Answer, AnswerStream, Client

LOADING_TIMEOUT_S = 120.0


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
    with _engine(context) as client, _asked(client, messages, reference, options) as stream:
        for text in stream:
            if context.output is OutputFormat.TABLE:
                print(text, end="", flush=True)
        answer = stream.answer
    write(asdict(answer), context.output, print)
    _say_who(answer)


@contextmanager
def _engine(context: Context) -> Iterator[Client]:
    """A client of the server, or of an engine in this process, which is loaded then."""
    if context.url is None:
        prepared(context.settings())
    with context.client(engine=True) as client:
        if context.url is None:
            with status("loading the base; the first time its kernels are compiled, half a minute"):
                client.ready()
        yield client


def _asked(client: Client, messages: list[dict[str, str]], model: str, options: dict[str, Any]) -> AnswerStream:
    """The answer that begins; a server that still loads is waited for, and says what it does."""
    if loading := _loading(client):
        with status(f"the server is not ready ({'; '.join(loading)})"):
            wait_until_ready(lambda: _loading(client), LOADING_TIMEOUT_S, lambda: None)
    try:
        return client.chat(messages, model=model, stream=True, **options)
    except UnknownModel as error:
        names = [entry["id"] for entry in client.models()]
        raise NotFound(unknown_model(model, names)) from error


def _loading(client: Client) -> list[str]:
    """Why the server cannot answer yet but will; a broken engine is told by the question itself."""
    return [reason for reason in client.ready() if reason.startswith("base: ")]


def unknown_model(reference: str, names: Sequence[str]) -> str:
    """What to say of a reference that names nothing, where `names` are there."""
    name = re.split("[:@]", reference, maxsplit=1)[0]
    if name in names:
        return f"There is no version {reference}. `graftwork list {name}` shows what there is."
    close = difflib.get_close_matches(name, names)
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    return f"There is no model {reference}.{meant} `graftwork list` shows what there is."


def _say_who(answer: Answer) -> None:
    digest, arm = answer.graftwork.get("digest", ""), answer.graftwork.get("arm", "")
    print(
        f"— {answer.model} ({short(digest)}, {arm}), {answer.usage.get('completion_tokens', 0)} tokens",
        file=sys.stderr,
    )
    for one in answer.graftwork.get("deprecated", ()):
        print(f"graftwork: warning: {one['model']} is deprecated: {one['message']}", file=sys.stderr)
