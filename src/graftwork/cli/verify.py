"""verify: whether every stored file of one version, or of all and of bases, is there and whole, and who signed it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, print_table, short_hex, size, write
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming


def add_to(app: typer.Typer) -> None:
    add_verb(app, verify, "verify")


def verify(
    ctx: typer.Context,
    reference: Annotated[str | None, typer.Argument(metavar="[REF]", help="Only this version's files.")] = None,
    signatures: Annotated[
        bool, typer.Option("--signatures", help="Also check every signature, under the key recorded with it.")
    ] = False,
    key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Also demand a valid signature of this public key.")
    ] = None,
) -> None:
    """Read every stored file again and compare it with its digest; exits 1 when one is missing or damaged.

    With --key also when a version has no valid signature of that key, with --signatures when one is invalid.
    """
    context, public_key = context_of(ctx), None if key is None else key.read_bytes()
    with context.client(registry=True) as client, naming(key, only=("key",)):
        report = client.verify(reference, signatures=signatures, public_key=public_key)
    write(report, context.output, lambda: _print(report))
    invalid = [one for one in report.get("signatures", ()) if one["state"] == "invalid"]
    if report["problems"] or report.get("unsigned") or invalid:
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
    if "signatures" in report:
        _print_signatures(report)


def _print_signatures(report: Any) -> None:
    columns = {
        "version": lambda row: row["version"],
        "signature": lambda row: row["state"],
        "key": lambda row: row["fingerprint"],
        "why": lambda row: row.get("reason"),
    }
    print_table(report["signatures"], columns, empty="No signatures.")
    for version in report["unsigned"]:
        print(f"{version} has no valid signature of this key.")
