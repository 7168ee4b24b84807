"""`graftwork demo`: a server of its own, the example adapters, a dozen requests at once."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.base import Base, prepared
from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.demo_plan import DemoPlan, plan_demo
from graftwork.cli.output import print_table, short_hex, write
from graftwork.cli.verb import add_verb
from graftwork.cli.waiting import status, wait_until_ready

MAX_TOKENS = 48
READY_TIMEOUT_S = 600.0
PIPE_WIDTH = 150
#: What says where prepared bases and compiled kernels are, so that the next commands find those of the demo.
CACHES = ("GRAFTWORK_CACHE_DIR", "NUMBA_CACHE_DIR")
#: The example that the README's tour does not push.
_NEXT = "entities"


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
    write(result, output, lambda: _print(result, plan))
    failed = [answer for answer in result["answers"] if answer["error"]]
    for answer in failed:
        print(f"graftwork: no answer from {answer['model']}: {answer['error']}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _in_home(home: Path, cache: Path, base: str | None, plan: DemoPlan) -> dict[str, Any]:
    import asyncio

    from graftwork.cli.demo_load import ask_all
    from graftwork.cli.demo_server import running_server
    from graftwork.client import Client

    with running_server(home, cache, base) as server, Client(server.url) as client:
        with status("loading the base"):
            wait_until_ready(client.ready, READY_TIMEOUT_S, server.check)
        name = client.base()["name"]
        with status("pushing the adapters"):
            for folder, reference in plan.pushes:
                client.push(folder, reference)
            for reference in plan.promotions:
                client.promote(reference, reason="the demo's newest")
        with status(f"asking {len(plan.questions)} questions at once"):
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


def _print(result: dict[str, Any], plan: DemoPlan) -> None:
    columns = {
        "request": lambda row: row["prompt"],
        "adapter": lambda row: row["adapter"] or f"({row['model']})",
        "version": lambda row: f"{row['version'] or 'base'} {short_hex(row['digest'])}",
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
    print("\nTry next:", *next_commands(plan, Path.cwd()), sep="\n  ")


def next_commands(plan: DemoPlan, here: Path) -> list[str]:
    """What to type next in the folder `here`, as it can be typed there."""
    program = shlex.join(_program(here))
    names = {reference.partition(":")[0]: folder for folder, reference in plan.pushes}
    name = _NEXT if _NEXT in names else next(reversed(names))
    folder = shlex.quote(_below(names[name], here))
    # In full: they must hold in the folders that one goes to next.
    caches = [f"{name}={shlex.quote(str(here / os.environ[name]))}" for name in CACHES if os.environ.get(name)]
    return [
        *([f"export {' '.join(caches)}"] if caches else []),
        f"{program} push {folder} {name}",
        f'{program} ask {name} "Marie Curie moved from Warsaw to Paris."',
        f"{program} serve",
    ]


def _program(here: Path) -> list[str]:
    """How the running program is called again."""
    if shutil.which("graftwork") is not None:
        return ["graftwork"]
    installed = Path(sys.executable).parent / "graftwork"
    if installed.is_file():
        return [_below(installed, here)]
    return [_below(Path(sys.executable), here), "-m", "graftwork.cli"]


def _below(path: Path, here: Path) -> str:
    """`path` as one types it in `here`."""
    absolute = here / path  # links stay: a virtual environment's python is one
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)
