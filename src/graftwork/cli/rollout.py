"""`graftwork rollout`: move a route to another version by steps, watch it, and take it back at once."""

from __future__ import annotations

import json
import sys
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import Context, OutputFormat, context_of
from graftwork.cli.output import Columns, Row, print_facts, print_table, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping

rollout_app = typer.Typer(no_args_is_help=True, help="Move a route to another version by steps, or back at once.")
Route = Annotated[str, typer.Argument(metavar="ROUTE", help="The route: its own name, or an adapter's.")]

_COLUMNS: Columns = {
    "route": lambda row: row["route"],
    "revision": lambda row: row["revision"],
    "strategy": lambda row: row["strategy"],
    "status": lambda row: _status(row),
    "step": lambda row: f"{row['step']}/{row['steps']}",
    "arms": lambda row: _arms(row),
    "reason": lambda row: row["reason"],
}


def add_to(app: typer.Typer) -> None:
    for verb in (start, status, watch, pause, resume, promote, abort, retry):
        add_verb(rollout_app, verb)
    app.add_typer(rollout_app, name="rollout")


def start(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Rollout document, YAML or JSON.")],
    reason: Reason = None,
) -> None:
    """Begin what a document says; one of the same route that runs is superseded."""
    context = context_of(ctx)
    document = read_mapping(file, field="rollout")
    with context.client() as client, naming(file, unless=("reason",)):
        _show(context, client.rollouts.start(document, reason=reason))


def status(
    ctx: typer.Context,
    route: Annotated[str | None, typer.Argument(metavar="[ROUTE]", help="One of them; without it, all.")] = None,
) -> None:
    """Show where the newest rollout of a route stands, or of every route."""
    context = context_of(ctx)
    with context.client() as client:
        if route is not None:
            _show(context, client.rollouts.show(route))
            return
        found = client.rollouts.list()
    _say_what_moves(context, *found)
    write(found, context.output, lambda: print_table(found, _COLUMNS, empty="No rollouts."))


def watch(ctx: typer.Context, route: Route) -> None:
    """Show a rollout each time that it changes, a line for each, and what its gates say, until it ends or Ctrl-C."""
    context = context_of(ctx)
    before: list[str] = []
    with context.client() as client:
        try:
            for found in client.rollouts.watch(route):
                if not before:
                    _say_what_moves(context, found)
                said = _lines(found, context.output)
                for line, text in said.items():
                    if text not in before:
                        print(line, flush=True)
                before = list(said.values())
        except KeyboardInterrupt:
            return


def pause(ctx: typer.Context, route: Route, reason: Reason = None) -> None:
    """Keep everything as it is until somebody resumes."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.rollouts.pause(route, reason=reason))


def resume(ctx: typer.Context, route: Route, reason: Reason = None) -> None:
    """Go on; a step that waits for a person is done by this."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.rollouts.resume(route, reason=reason))


def promote(
    ctx: typer.Context,
    route: Route,
    arm: Annotated[str | None, typer.Option(help="Which candidate, where there are several.")] = None,
    reason: Reason = None,
) -> None:
    """Let the route mean a candidate now, whatever is left to do."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.rollouts.promote(route, arm=arm, reason=reason))


def abort(ctx: typer.Context, route: Route, reason: Reason = None) -> None:
    """Let the stable version answer everybody again, at once."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.rollouts.abort(route, reason=reason))


def retry(ctx: typer.Context, route: Route, reason: Reason = None) -> None:
    """Begin an aborted rollout again, from its first step."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.rollouts.retry(route, reason=reason))


def _show(context: Context, found: dict[str, Any]) -> None:
    facts = {
        "route": found["route"],
        "revision": found["revision"],
        "strategy": found["strategy"],
        "status": _status(found),
        "step": f"{found['step']}/{found['steps']}",
        **{one["arm"]: f"{one['version']}  {one['weight']:g} %" for one in found["arms"]},
        **({"mirror": f"{found['mirror']:g} % of requests are copied"} if found["mirror"] else {}),
        "reason": found["reason"],
        **({"waits for": found["waits_for"]} if found["waits_for"] else {}),
        **({"next": f"graftwork rollout {verb} {found['route']}"} if (verb := _next(found)) else {}),
        "updated": found["updated_at"],
        **{
            f"{standing['arm']}: {_metric(standing, metric)}": f"{metric['result']}: {metric['reason']}"
            for standing in found["analyses"]
            for metric in standing["metrics"]
        },
    }
    _say_what_moves(context, found)
    write(found, context.output, lambda: print_facts(facts))


def _metric(standing: Row, metric: Row) -> str:
    """Its name, and by which arguments it is judged where there are some: one template may judge an arm by several."""
    return f"{_by(standing)}: {metric['name']}" if standing.get("args") else str(metric["name"])


def _by(standing: Row) -> str:
    """`careful`, or `careful floor=0.9`; servers of before tell no arguments."""
    return " ".join([standing["name"], *(f"{one['name']}={one['value']}" for one in standing.get("args", ()))])


def _say_what_moves(context: Context, *found: Row) -> None:
    """Without a server named, nothing else tells that it takes one for a rollout to go on."""
    if context.url is None and any(one["ended_at"] is None for one in found):
        print(
            "A rollout goes on only while a server runs on this registry: `graftwork serve` starts one.",
            file=sys.stderr,
            flush=True,
        )


def _next(found: Row) -> str | None:
    """The verb that a person is waited for with."""
    if found["held"] is not None:
        return "resume"
    return "retry" if found["status"] == "aborted" else None


def _lines(found: Row, output: OutputFormat) -> dict[str, str]:
    """What is said of it, by time: the lines, and of each what is news in it: not when it was looked at."""
    if output is not OutputFormat.TABLE:
        line = json.dumps(found, ensure_ascii=False)
        return {line: line}
    said = []
    for one in found["analyses"]:
        standing = f"{one['arm']}: {_by(one)}  {one['result']}: {one['reason']}"
        said.append((one["looked_at"], standing, one["since"]))
    waits = f" {found['waits_for']}" if found["waits_for"] else ""
    state = f"{_status(found)}  {found['step']}/{found['steps']}  {_arms(found)}  {found['reason']}{waits}"
    said.append((found["updated_at"], state, found["updated_at"]))
    said.sort(key=itemgetter(0))  # what was seen comes before what was done for it at the same moment
    return {f"{at}  {text}": f"{since}  {text}" for at, text, since in said}


def _status(row: Row) -> str:
    return f"{row['status']} ({row['held']})" if row["held"] else str(row["status"])


def _arms(row: Row) -> str:
    return ", ".join(f"{one['arm']} {one['version']} {one['weight']:g} %" for one in row["arms"])
