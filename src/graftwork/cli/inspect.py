"""`graftwork inspect`: what a push would say of a folder, without a server and without registering it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.base import Base, prepared
from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, print_table, size, write
from graftwork.cli.verb import add_verb

#: Tensors of a refused adapter that the table shows; the reasons below it matter more.
_SHOWN = 8


def add_to(app: typer.Typer) -> None:
    add_verb(app, inspect, local=True)


def inspect(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the adapter, as PEFT saves it.")],
    base: Base = None,
) -> None:
    """Account for every tensor of an adapter against a base: used with which scale, or refused and why.

    Exits with 1 when a push would be refused.
    """
    from graftwork.adapters.account import account_folder

    context = context_of(ctx)
    settings = context.settings(base=base)
    account = account_folder(folder, prepared(settings).outline, max_rank=settings.max_rank).to_json()
    write(account, context.output, lambda: _print_account(account))
    for problem in account["problems"][:_SHOWN]:
        print(f"graftwork: refused: {problem}", file=sys.stderr)
    if (more := len(account["problems"]) - _SHOWN) > 0:
        print(f"graftwork: refused: and {more} more; --output json lists them all.", file=sys.stderr)
    for warning in account["warnings"]:
        print(f"graftwork: warning: {warning}", file=sys.stderr)
    if not account["ok"]:
        raise typer.Exit(1)


def _print_account(account: dict[str, Any]) -> None:
    """The summary, then the tensors; of a refused adapter the summary stands last, beside the reasons."""
    if account["ok"]:
        _print_summary(account)
        print()
        _print_tensors(account)
    else:
        _print_tensors(account)
        _print_summary(account)


def _print_tensors(account: dict[str, Any]) -> None:
    columns = {
        "tensor": lambda row: row["name"],
        "shape": lambda row: "×".join(map(str, row["shape"])),
        "dtype": lambda row: row["dtype"],
        "used": lambda row: "yes" if row["used"] else "NO",
        "scale": lambda row: None if row["scale"] is None else f"{row['scale']:.4g}",
        "why": lambda row: row["reason"],
    }
    shown = account["tensors"] if account["ok"] else [row for row in account["tensors"] if not row["used"]][:_SHOWN]
    print_table(shown, columns, empty="No tensors.")
    if len(shown) < len(account["tensors"]):
        print(f"{len(shown)} of {len(account['tensors'])} tensors are shown; --output json lists them all.")


def _print_summary(account: dict[str, Any]) -> None:
    print_facts(
        {
            "servable": "yes" if account["ok"] else "NO",
            "kind": account["kind"],
            "base": account["base"],
            "rank": account["rank"] or None,
            "size": size(account["bytes"]) if account["bytes"] else None,
            "unused": len(account["unused"]),
            "companions": ", ".join(account["companions"]["files"]) or None,
        }
    )
