"""The verbs of lineage: lineage, lineage add, impact."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import print_facts, print_table, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb

Node = Annotated[str, typer.Argument(metavar="NODE", help="NAME@alias, dataset:URI[@sha256:…], base:NAME, …")]
Depth = Annotated[int | None, typer.Option(metavar="STEPS", help="How far; all the way if not given.")]


class _ShowByDefault(TyperGroup):
    """`lineage NODE` is `lineage show NODE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


lineage_app = typer.Typer(
    cls=_ShowByDefault,
    no_args_is_help=True,
    help="What a version, or anything else, came from: `graftwork lineage NODE`; and facts to add.",
)


def add_to(app: typer.Typer) -> None:
    add_verb(lineage_app, show)
    add_verb(lineage_app, add)
    app.add_typer(lineage_app, name="lineage")
    add_verb(app, impact)


def show(
    ctx: typer.Context,
    node: Node,
    direction: Annotated[str, typer.Option(help="upstream: what it came from; downstream, or both.")] = "upstream",
    depth: Depth = None,
    format_: Annotated[
        str,
        typer.Option("--format", help="tree, dot, mermaid, prov (PROV-JSON) or openlineage (events, one per line)."),
    ] = "tree",
    limit: Annotated[int | None, typer.Option(metavar="NODES", help="At most so many, the nearest.")] = None,
) -> None:
    """Show what a node came from, as a tree, a drawing, or for other tools; the same as `graftwork lineage NODE`."""
    from graftwork.registry.lineage.formats import write_graph

    context = context_of(ctx)
    with context.client() as client:
        graph = client.lineage.graph(node, direction=direction, depth=depth, limit=limit)
    text = write_graph(graph, format_)
    output = context.output if format_ == "tree" else OutputFormat.TABLE  # a format is a document of its own
    write(graph, output, lambda: print(text, end=""))


def add(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="What stands on something: application:crm, …")],
    role: Annotated[str, typer.Argument(metavar="ROLE", help="trained_on, derived_from, evaluated_on, uses, …")],
    target: Annotated[str, typer.Argument(metavar="TO", help="What it stands on: route:NAME, dataset:URI, …")],
    reason: Reason = None,
) -> None:
    """Add a fact: FROM stands on TO. It cannot be taken back."""
    context = context_of(ctx)
    with context.client() as client:
        fact = client.lineage.add(source, role, target, reason=reason)
    write(fact, context.output, lambda: print_facts(fact))


def impact(
    ctx: typer.Context,
    node: Node,
    depth: Depth = None,
    kind: Annotated[str | None, typer.Option(help="Only version, route, application, dataset, …")] = None,
    live: Annotated[bool, typer.Option("--live", help="Only aliased versions, routes and applications.")] = False,
    page_size: Annotated[int | None, typer.Option(metavar="NODES", help="At most so many.")] = None,
    page_token: Annotated[str | None, typer.Option(metavar="TOKEN", help="Go on from an earlier page.")] = None,
) -> None:
    """Show what stands on a node: versions at any depth, the aliases and routes that serve them now, applications."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.lineage.impact(
            node, depth=depth, kind=kind, live=live, page_size=page_size, page_token=page_token
        )
    write(found, context.output, lambda: _print(found))


def _print(found: Any) -> None:
    rows = [
        {"node": node, "as": one, "again": place > 0}
        for node in found["nodes"]
        for place, one in enumerate(node["versions"] or [None])
    ]
    columns = {
        "kind": lambda row: "same bytes" if row["again"] else row["node"]["kind"],
        "name": lambda row: f"{row['as']['adapter']}:{row['as']['version']}" if row["as"] else row["node"]["name"],
        "stage": lambda row: row["as"] and row["as"]["stage"],
        "aliases": lambda row: [f"@{alias}" for alias in row["as"]["aliases"]] if row["as"] else None,
    }
    print_table(rows, columns, empty="Nothing stands on it.")
    counts = ", ".join(f"{number} {kind}" for kind, number in found["counts"].items())
    if found["next_page_token"]:
        print(f"… of {found['count']}: {counts}. Go on with --page-token '{found['next_page_token']}'")
    elif len(rows) != found["count"]:
        print(f"{found['count']}: {counts}")
