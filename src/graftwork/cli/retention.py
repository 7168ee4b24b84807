"""What stays and what goes: delete, hold set|rm|list, retention set|rm|list, gc."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, print_table, short_hex, size, write
from graftwork.cli.registry import Reason, Reference
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping
from graftwork.errors import InvalidRequest

Why = Annotated[str, typer.Option(help="Why, for the history.")]
Held = Annotated[str, typer.Argument(metavar="REF", help="NAME:1.4.0, NAME@alias, …; a bare NAME is all its versions.")]
Age = Annotated[str, typer.Option(metavar="AGE", help="Such as 90m, 24h or 7d.")]

hold_app = typer.Typer(no_args_is_help=True, help="Keep versions for legal reasons, whatever else would let them go.")
retention_app = typer.Typer(no_args_is_help=True, help="Say which versions may go when bytes are collected.")

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_to(app: typer.Typer) -> None:
    add_verb(app, delete)
    add_verb(app, gc)
    add_verb(hold_app, hold_set, "set")
    add_verb(hold_app, hold_rm, "rm")
    add_verb(hold_app, hold_list, "list")
    add_verb(retention_app, retention_set, "set")
    add_verb(retention_app, retention_rm, "rm")
    add_verb(retention_app, retention_list, "list")
    app.add_typer(hold_app, name="hold")
    app.add_typer(retention_app, name="retention")


def delete(
    ctx: typer.Context,
    reference: Reference,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="REF is a bare NAME: delete the adapter with all its versions.")
    ] = False,
    in_production: Annotated[
        bool, typer.Option("--in-production", help="With --all-versions: also when it is in production.")
    ] = False,
    reason: Reason = None,
) -> None:
    """Delete a version that nobody needs; its bytes go with the next gc, its number is never given again."""
    context = context_of(ctx)
    with context.client() as client:
        if all_versions:
            deleted = client.retention.delete_adapter(reference, in_production=in_production, reason=reason)
        else:
            deleted = client.retention.delete(reference, reason=reason)
    columns = {
        "deleted": lambda row: f"{row['adapter']}:{row['semver']}",
        "stage": lambda row: row["stage"],
        "digest": lambda row: short_hex(row["digest"]),
    }
    write(deleted, context.output, lambda: print_table(deleted, columns, empty=""))


def hold_set(ctx: typer.Context, reference: Held, reason: Why) -> None:
    """Hold a version, or all of an adapter's, also those to come: nothing deletes or collects it."""
    context = context_of(ctx)
    with context.client() as client:
        hold = client.holds.set(reference, reason=reason)
    write(hold, context.output, lambda: print_facts(_facts(hold)))


def hold_rm(ctx: typer.Context, reference: Held, reason: Why) -> None:
    """End the hold of a version, or of a whole adapter."""
    context = context_of(ctx)
    with context.client() as client:
        hold = client.holds.release(reference, reason=reason)
    write(hold, context.output, lambda: print_facts({"released": _label(hold), "was held": hold["reason"]}))


def hold_list(ctx: typer.Context) -> None:
    """List the holds in force."""
    context = context_of(ctx)
    with context.client() as client:
        holds = client.holds.list()
    columns = {
        "hold": lambda row: row["number"],
        "what": _label,
        "reason": lambda row: row["reason"],
        "since": lambda row: row["created_at"],
        "by": lambda row: row["created_by"],
    }
    write(holds, context.output, lambda: print_table(holds, columns, empty="Nothing is held."))


def retention_set(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML resource of kind Retention.")],
) -> None:
    """Set the rules of an adapter, or without a name those of all that have none of their own."""
    context, resource = context_of(ctx), read_mapping(file, field="file")
    with context.client() as client, naming(file):
        rules = client.retention.set_rules(resource)
    write(rules, context.output, lambda: _print_rules([rules]))


def retention_rm(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The adapter; without it, of all.")] = None,
) -> None:
    """Take the rules of an adapter away, or those of all."""
    context = context_of(ctx)
    with context.client() as client:
        client.retention.remove_rules(name)
    removed = {"name": name, "removed": True}
    write(removed, context.output, lambda: print_facts({**removed, "name": name or "all adapters"}))


def retention_list(ctx: typer.Context) -> None:
    """List the rules; without any, everything stays until it is deleted."""
    context = context_of(ctx)
    with context.client() as client:
        rules = client.retention.rules()
    write(rules, context.output, lambda: _print_rules(rules))


def gc(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    older_than: Age = "24h",
    quarantine_older_than: Age = "30d",
) -> None:
    """Let versions go by the retention rules, and remove every byte that nobody wants any more."""
    context = context_of(ctx)
    ages = {
        "older_than_s": _seconds(older_than, "--older-than"),
        "quarantine_s": _seconds(quarantine_older_than, "--quarantine-older-than"),
    }
    with context.client(registry=True) as client:
        report = client.retention.gc(dry_run=dry_run, **ages)
    write(report, context.output, lambda: _print_report(report))


def _seconds(age: str, option: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", age, re.ASCII)
    if found is None:
        raise InvalidRequest(f"{option} {age!r} is no age; write 90m, 24h or 7d.", field="settings")
    return float(int(found[1]) * _UNITS[found[2]])


def _label(hold: Any) -> str:
    return hold["adapter"] if hold["semver"] is None else f"{hold['adapter']}:{hold['semver']}"


def _facts(hold: Any) -> dict[str, Any]:
    return {"hold": hold["number"], "what": _label(hold), "reason": hold["reason"], "since": hold["created_at"]}


def _print_rules(rules: list[Any]) -> None:
    columns = {"adapter": lambda row: row["metadata"]["name"] or "(all others)"}
    columns |= {field: lambda row, field=field: row["spec"][field] for field in (rules[0]["spec"] if rules else ())}
    print_table(rules, columns, empty="No rules: everything stays until it is deleted.")


def _print_report(report: Any) -> None:
    columns = {
        "would go" if report["dry_run"] else "went": lambda row: row["kind"],
        "of": lambda row: row["name"],
        "size": lambda row: size(row["bytes"]),
        "digest": lambda row: short_hex(row["digest"]),
        "why": lambda row: row["why"],
    }
    print_table(report["items"], columns, empty="There is nothing to collect.")
    young = report["young"]
    if young["blobs"]:
        text = f"{young['blobs']} more that nobody wants, {size(young['bytes'])}, are younger than --older-than."
        print(f"graftwork: {text}", file=sys.stderr)
    for label in report["erased"]:
        print(f"{'would be erased' if report['dry_run'] else 'erased'}  {label}")
