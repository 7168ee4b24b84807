"""`graftwork shadow`: how a version would have answered beside the one that did."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, print_facts, print_table, write
from graftwork.cli.prediction import Since, Until
from graftwork.cli.verb import add_verb

shadow_app = typer.Typer(no_args_is_help=True, help="How a version would have answered beside the one that did.")
Route = Annotated[str, typer.Argument(metavar="ROUTE", help="The route: its own name, or an adapter's.")]
Run = Annotated[str | None, typer.Option(metavar="ROUTE/REVISION", help="Only copies of this rollout.")]

_COLUMNS: Columns = {
    "at": lambda row: row["at"],
    "request": lambda row: row["request_id"],
    "model": lambda row: row["model"],
    "shadow": lambda row: row["shadow_model"],
    "outcome": lambda row: row["outcome"] if row["outcome"] == "ok" else f"{row['outcome']}: {row['error']}",
    "exact": lambda row: row["exact"],
    "similarity": lambda row: _number(row["similarity"]),
    "length": lambda row: _number(row["length_ratio"]),
    "seconds": lambda row: f"{_number(row['latency_s'])} / {_number(row['shadow_latency_s'])}",
}


def add_to(app: typer.Typer) -> None:
    add_verb(shadow_app, report)
    add_verb(shadow_app, listed, "list")
    app.add_typer(shadow_app, name="shadow")


def report(ctx: typer.Context, route: Route, rollout: Run = None, since: Since = None, until: Until = None) -> None:
    """Show what the copies of a route's requests say of each pair of versions."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.shadows.report(route, rollout=rollout, since=since, until=until)
    write(found, context.output, lambda: _print(found))


def listed(
    ctx: typer.Context,
    route: Annotated[
        str | None, typer.Argument(metavar="[ROUTE]", help="Only copies of its requests; without it, of all.")
    ] = None,
    rollout: Run = None,
    outcome: Annotated[str | None, typer.Option(help="Only those that are ok, error or timeout.")] = None,
    differing: Annotated[bool, typer.Option("--differing", help="Only those whose text is another one.")] = False,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the newest.")] = 100,
) -> None:
    """Show copies and how they differed, the newest first."""
    context = context_of(ctx)
    filters = {"route": route, "rollout": rollout, "outcome": outcome, "exact": "false" if differing else None}
    with context.client() as client:
        found = client.shadows.list(limit=limit, since=since, until=until, **filters)
    write(found, context.output, lambda: print_table(found, _COLUMNS, empty="No such copies were made."))


def _print(pairs: list[dict[str, Any]]) -> None:
    if not pairs:
        print("No copies were made.")
    for number, pair in enumerate(pairs):
        if number:
            print()
        print_facts(_facts(pair))
        for one in pair["worst"]:
            print(f"differs        {one['request_id']}  {_number(one['similarity'])}  {one['outcome']}")


def _facts(pair: dict[str, Any]) -> dict[str, Any]:
    like, length, times = pair["similarity"], pair["length_ratio"], pair["latency_s"]
    logprobs = pair["mean_logprob"]
    return {
        "answers": pair["model"],
        "shadow": pair["shadow_model"],
        "copies": f"{pair['copies']}, {pair['errors']} failed, {pair['timeouts']} timed out",
        "exact": _share(pair["exact"]),
        "normalised": _share(pair["normalised"]),
        "similarity": ", ".join(f"{name} {_number(like[name])}" for name in ("p5", "p25", "p50")),
        "length ratio": ", ".join(f"{name} {_number(length[name])}" for name in ("p5", "p50", "p95")),
        "seconds p50": f"{_number(times['answer']['p50'])} / {_number(times['shadow']['p50'])}",
        "seconds p95": f"{_number(times['answer']['p95'])} / {_number(times['shadow']['p95'])}",
        "mean logprob": f"{_number(logprobs['answer'])} / {_number(logprobs['shadow'])}",
        "sampled": f"{pair['sampled']} at a temperature above 0",
    }


def _share(rate: dict[str, Any]) -> str:
    if rate["rate"] is None:
        return "nothing was compared"
    return f"{100 * rate['rate']:.1f} % of {rate['of']} ({100 * rate['low']:.1f} to {100 * rate['high']:.1f} %)"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
