"""The verbs of finding: search, tag, describe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Row, print_facts, print_table, short_hex, write
from graftwork.cli.registry import Name
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

Target = Annotated[str, typer.Argument(metavar="REF", help="NAME:1.4.0 or NAME@alias; NAME alone: the adapter itself.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The tag's key.")]
Pairs = Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Tags, one or several.")]

tag_app = typer.Typer(no_args_is_help=True, help="Keys and values that versions and adapters are found by.")


def add_to(app: typer.Typer) -> None:
    add_verb(app, search)
    add_verb(app, describe)
    add_verb(tag_app, tag_set, "set")
    add_verb(tag_app, tag_rm, "rm")
    add_verb(tag_app, tag_list, "list")
    app.add_typer(tag_app, name="tag")


def search(
    ctx: typer.Context,
    filter: Annotated[
        str, typer.Argument(metavar="[FILTER]", help="Such as 'rank <= 16 and stage = production'.")
    ] = "",
    text: Annotated[str, typer.Option(help="Words in names, descriptions and cards; word* is a beginning.")] = "",
    sort: Annotated[str, typer.Option(help="Such as 'metrics.rouge1 desc'; the newest first by default.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
) -> None:
    """Find versions by what was registered, measured and said of them."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.searches.find(filter, text=text, sort=sort, limit=limit + 1)
    found, more = found[:limit], len(found) > limit
    columns = {
        "version": lambda row: f"{row['adapter']}:{row['semver']}",
        "stage": lambda row: row["stage"],
        "aliases": lambda row: [f"@{alias}" for alias in row["aliases"]],
        "newest": lambda row: "yes" if row["newest"] else None,
        "kind": lambda row: f"{row['kind']} r{row['rank']}",
        "base": lambda row: row["base"],
        "tags": lambda row: [f"{key}={value}" for key, value in row["tags"].items()],
        **({"sorted by": lambda row: row["value"]} if sort else {}),
        "digest": lambda row: short_hex(row["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No version fits.", least="base"))
    if more:
        print(f"graftwork: these are the first {limit}, and there are more: say --limit.", file=sys.stderr)


def describe(
    ctx: typer.Context,
    name: Name,
    display_name: Annotated[str | None, typer.Option(help="Its name for people; empty for none.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for; empty for nothing.")] = None,
) -> None:
    """Say what an adapter is called and what it is for."""
    context = context_of(ctx)
    with context.client() as client:
        described = client.descriptions.set(name, display_name=display_name, description=description)
    write(described, context.output, lambda: print_facts(described))


def tag_set(ctx: typer.Context, reference: Target, pairs: Pairs) -> None:
    """Give tags, over whatever they were."""
    context = context_of(ctx)
    wanted = [pair.partition("=") for pair in pairs]
    for pair, (key, _, value) in zip(pairs, wanted, strict=True):
        if not key or not value:
            raise InvalidRequest(f"{pair!r} is not KEY=VALUE.", field="meta")
    with context.client() as client:
        tags = [client.tags.set(reference, key, value) for key, _, value in wanted]
    write(tags, context.output, lambda: _print_tags(tags))


def tag_rm(ctx: typer.Context, reference: Target, key: Key) -> None:
    """Take a tag away."""
    context = context_of(ctx)
    with context.client() as client:
        client.tags.remove(reference, key)
    removed = {"reference": reference, "key": key, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def tag_list(ctx: typer.Context, reference: Target) -> None:
    """Show the tags of a version, or of an adapter itself."""
    context = context_of(ctx)
    with context.client() as client:
        tags = client.tags.list(reference)
    write(tags, context.output, lambda: _print_tags(tags))


def _print_tags(tags: Sequence[Row]) -> None:
    columns = {
        "key": lambda row: row["key"],
        "value": lambda row: row["value"],
        "set at": lambda row: row["updated_at"],
        "by": lambda row: row["updated_by"],
    }
    print_table(tags, columns, empty="No tags.")
