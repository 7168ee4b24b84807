"""`graftwork demo`: a server of its own, the example adapters, a dozen requests at once."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.base import Base, prepared
from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.demo_plan import DemoPlan, plan_demo
from graftwork.cli.output import print_table, short, write
from graftwork.cli.verb import add_verb
from graftwork.errors import Unavailable

MAX_TOKENS = 48
READY_TIMEOUT_S = 600.0
PIPE_WIDTH = 150


def add_to(app: typer.Typer) -> None:
    add_verb(app, demo, local=True)


def demo(
    ctx: typer.Context,
    adapters: Annotated[
        Path | None, typer.Option("--adapters", metavar="DIR", help="Folder of adapter folders.")
    ] = None,
    base: Base = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
) -> None:
    """See the main job done: several adapters and their base, answered in one batch.

    Starts a server with a home of its own, pushes the example adapters, asks all at once, stops the server.
    """
    context = context_of(ctx)
    plan = plan_demo(adapters)
    settings = context.settings(base=base)
    prepared(settings)
    with tempfile.TemporaryDirectory(prefix="graftwork-demo-", ignore_cleanup_errors=True) as home:
        result = _in_home(Path(home), settings.cache, base, plan)
    output = OutputFormat.JSON if as_json else context.output
    write(result, output, lambda: _print(result))
    failed = [answer for answer in result["answers"] if answer["error"]]
    for answer in failed:
        print(f"graftwork: no answer from {answer['model']}: {answer['error']}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _in_home(home: Path, cache: Path, base: str | None, plan: DemoPlan) -> dict[str, Any]:
    from graftwork.cli.demo_load import ask_all
    from graftwork.cli.demo_server import running_server
    from graftwork.client import Client

    with running_server(home, cache, base) as server, Client(server.url) as client:
        with _status("loading the base"):
            _wait_until_ready(client, server.check)
        name = client.base()["name"]
        with _status("pushing the adapters"):
            for folder, reference in plan.pushes:
                client.push(folder, reference)
            for reference in plan.promotions:
                client.promote(reference, reason="the demo's newest")
        with _status(f"asking {len(plan.questions)} questions at once"):
            began = time.perf_counter()
            answers = asyncio.run(ask_all(server.url, plan.questions, base=name, max_tokens=MAX_TOKENS))
            wall_s = time.perf_counter() - began
        stats = client.engine()
    tokens = sum(answer["completion_tokens"] for answer in answers)
    return {
        "base": name,
        "answers": answers,
        "max_distinct_adapters_in_step": stats["max_distinct_adapters_in_step"],
        "requests": len(answers),
        "wall_s": round(wall_s, 3),
        "output_tokens_per_s": round(tokens / wall_s, 1),
    }


def _wait_until_ready(client: Any, check: Any) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while reasons := client.ready():
        check()
        if time.monotonic() > deadline:
            raise Unavailable(f"The server is not ready after {READY_TIMEOUT_S:.0f} s: {'; '.join(reasons)}")
        time.sleep(0.1)


@contextmanager
def _status(what: str) -> Iterator[None]:
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        print(f"{what} …", file=sys.stderr, flush=True)
        yield
        return
    with console.status(f"{what} …"):
        yield


def _print(result: dict[str, Any]) -> None:
    columns = {
        "request": lambda row: row["prompt"],
        "adapter": lambda row: row["adapter"] or f"({row['model']})",
        "version": lambda row: f"{row['version'] or 'base'} {short(row['digest'])[len('sha256:') :]}",
        "answer": lambda row: " ".join((row["text"] or row["error"] or "").split()),
        "first token": lambda row: f"{row['ttft_ms']:.0f} ms",
        "tokens/s": lambda row: f"{row['tokens_per_s']:.1f}",
    }
    print_table(result["answers"], columns, empty="No questions.", pipe_width=PIPE_WIDTH)
    print(
        f"\n{result['requests']} requests at once in {result['wall_s']:.1f} s, "
        f"{result['output_tokens_per_s']:.0f} tokens/s together. "
        f"Up to {result['max_distinct_adapters_in_step']} different adapters shared one forward pass "
        f"over the one copy of {result['base']}."
    )
    print(
        "\nTry next:\n"
        "  graftwork push examples/adapters/sentiment sentiment\n"
        '  graftwork ask sentiment "The tram was late again."\n'
        "  graftwork serve"
    )
