"""The verbs of memory: residency, load, unload, pin, unpin; they speak to a server that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import Row, print_facts, print_table, short_hex, size, write
from graftwork.cli.registry import Reference
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from graftwork.client import Client

Wait = Annotated[
    float | None, typer.Option("--wait", metavar="SECONDS", help="Longest wait; what was asked for goes on after it.")
]


def add_to(app: typer.Typer) -> None:
    for verb in (residency, load, unload, pin, unpin):
        add_verb(app, verb)


def residency(
    ctx: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(help="Only those that are resident, draining, loading, failed, disk or stored."),
    ] = None,
) -> None:
    """Show where each version is: in memory, on the local disk, in the store; who uses it and what failed."""
    context = context_of(ctx)
    with _server(context) as client:
        found = client.residency(state=state)
    columns = {
        "version": lambda row: row["reference"],
        "state": _state,
        "memory": lambda row: _size(row, "memory"),
        "form": lambda row: _size(row, "form"),
        "files": lambda row: _size(row, "copy"),
        "rows": lambda row: row["rows"] or None,
        "last used": lambda row: row["last_used_at"],
        "failure": lambda row: row["failure"] and row["failure"]["message"],
        "digest": lambda row: short_hex(row["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No versions.", least="digest"))


def load(ctx: typer.Context, reference: Reference, wait: Wait = None) -> None:
    """Bring a version to memory before anybody asks for it; what failed before is tried anew."""
    context = context_of(ctx)
    with _server(context) as client:
        _show(context, client.load(reference, wait_s=wait))


def unload(
    ctx: typer.Context,
    reference: Reference,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", help="Longest wait for those who use it; it leaves after them."),
    ] = 10.0,
    disk: Annotated[bool, typer.Option("--disk", help="Also free its room on the server's local disk.")] = False,
) -> None:
    """Free a version's memory; running answers finish, and the next request loads it again."""
    context = context_of(ctx)
    with _server(context) as client:
        _show(context, client.unload(reference, wait_s=wait, disk=disk))


def pin(ctx: typer.Context, reference: Reference, wait: Wait = None) -> None:
    """Load a version and keep it in memory until it is unpinned or the server ends."""
    context = context_of(ctx)
    with _server(context) as client:
        _show(context, client.pin(reference, wait_s=wait))


def unpin(ctx: typer.Context, reference: Reference) -> None:
    """Let a version leave memory again when its room is needed."""
    context = context_of(ctx)
    with _server(context) as client:
        _show(context, client.unpin(reference))


@contextmanager
def _server(context: Context) -> Iterator[Client]:
    """A client of the server; the memory of this process would be gone with it."""
    if context.url is None:
        raise InvalidRequest("This is about the memory of a server that runs: say which with --url.", field="url")
    with context.client() as client:
        yield client


def _show(context: Context, entry: dict[str, Any]) -> None:
    facts = {
        "version": entry["reference"],
        "state": _state(entry),
        "digest": entry["digest"],
        "rows": entry["rows"] or None,
        **{tier: size(held) for tier, held in entry["tiers"].items()},
    }
    write(entry, context.output, lambda: print_facts(facts))


def _state(row: Row) -> str:
    return f"{row['state']}, pinned" if row["pinned"] else str(row["state"])


def _size(row: Row, tier: str) -> str | None:
    held = row["tiers"].get(tier)
    return size(held) if held else None
