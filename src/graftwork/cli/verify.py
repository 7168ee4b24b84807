"""verify: whether every stored file of one version, or of all and of bases, is there and whole."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, print_table, short_hex, size, write
from graftwork.cli.verb import add_verb


def add_to(app: typer.Typer) -> None:
    add_verb(app, verify, "verify")


def verify(
    ctx: typer.Context,
    reference: Annotated[str | None, typer.Argument(metavar="[REF]", help="Only this version's files.")] = None,
) -> None:
    """Read every stored file again and compare it with its digest; exits 1 when one is missing or damaged."""
    context = context_of(ctx)
    with context.client() as client:
        report = client.verify(reference)
    write(report, context.output, lambda: _print(report))
    if report["problems"]:
        raise typer.Exit(1)


def _print(report: Any) -> None:
    print_facts(
        {
            "versions": report["versions"],
            "blobs": f"{report['blobs']}, {size(report['bytes'])}",
            "problems": len(report["problems"]),
        }
    )
    columns = {
        "state": lambda row: row["state"],
        "digest": lambda row: short_hex(row["digest"]),
        "files": lambda row: row["files"],
    }
    if report["problems"]:
        print_table(report["problems"], columns, empty="")
        print("Push the same folders again: what is missing is sent. Damaged bytes were put aside in the store.")
