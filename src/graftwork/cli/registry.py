"""The registry's verbs: push, list, show, history, promote, rollback, alias."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.metadata import flat, read_options
from graftwork.cli.output import Row, as_json, print_facts, print_table, short_hex, size, write
from graftwork.cli.verb import add_verb

Reference = Annotated[str, typer.Argument(metavar="REF", help="NAME, NAME:1.4.0, NAME@alias or NAME@sha256:…")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The adapter's name.")]
Reason = Annotated[str | None, typer.Option(help="Why, for the history.")]
Expected = Annotated[
    str | None,
    typer.Option("--expect", "--expected", metavar="DIGEST", help="Only if it points at this digest now, or `absent`."),
]

#: Of metadata, what other lines of a version say.
_SHOWN = ("base.", "adapter.")

alias_app = typer.Typer(no_args_is_help=True, help="Move the names that point at versions.")


def add_to(app: typer.Typer) -> None:
    for verb in (push, list_, show, history, promote, rollback):
        add_verb(app, verb, verb.__name__.rstrip("_"))
    add_verb(alias_app, alias_list, "list")
    add_verb(alias_app, alias_set, "set")
    add_verb(alias_app, alias_rm, "rm")
    app.add_typer(alias_app, name="alias")


def push(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the adapter, as PEFT saves it.")],
    reference: Annotated[str, typer.Argument(metavar="NAME[:SEMVER]", help="Its name and, if wanted, version.")],
    meta: Annotated[
        list[str] | None,
        typer.Option("--meta", metavar="KEY=VALUE", help="One of its metadata, such as code.commit=…; repeatable."),
    ] = None,
    metadata: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Metadata, as JSON or YAML; --meta goes before it.")
    ] = None,
) -> None:
    """Register a folder as a version: checked tensor by tensor, immutable from then on."""
    context, told = context_of(ctx), read_options(meta or [], metadata)
    with context.client() as client:
        if context.url is None:
            _prepare_base(context.settings())
        version = client.push(folder, reference, metadata=told)
    if not version["created"]:
        print("graftwork: these bytes were registered before; nothing changed.", file=sys.stderr)
    elif twin := version.get("same_content_as"):
        print(f"graftwork: other files, but config and tensors are those of {twin}.", file=sys.stderr)
    for warning in (version.get("account") or {}).get("warnings", []):
        print(f"graftwork: warning: {warning}", file=sys.stderr)
    write(version, context.output, lambda: print_version(version))


def list_(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this adapter's versions.")] = None,
) -> None:
    """List the adapters, or the versions of one."""
    context = context_of(ctx)
    with context.client() as client:
        if name is None:
            adapters = client.adapters()
            write(adapters, context.output, lambda: _print_adapters(adapters))
        else:
            versions = client.versions(name)
            write(versions, context.output, lambda: _print_versions(versions))


def show(
    ctx: typer.Context,
    reference: Reference,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="What it meant then, such as 2026-11-02T10:00:00Z.")
    ] = None,
) -> None:
    """Show one version: its files, its digest, its stage, its account."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.show(reference, at=at)
    write(version, context.output, lambda: print_version(version))


def history(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME[@ALIAS]", help="The adapter, or one of its aliases.")],
) -> None:
    """Show every change of one adapter, or every move of one of its aliases, oldest first."""
    context = context_of(ctx)
    name, _, alias = name.partition("@")
    with context.client() as client:
        events = client.history(name, alias=alias or None)
    columns = {
        "at": lambda event: event["at"],
        "who": lambda event: event["actor"],
        "what": lambda event: event["kind"],
        "details": lambda event: _details(event["payload"]),
    }
    write(events, context.output, lambda: print_table(events, columns, empty="Nothing happened yet."))


def promote(ctx: typer.Context, reference: Reference, reason: Reason = None) -> None:
    """Put a version into production: from now on it answers to the bare name."""
    context = context_of(ctx)
    with context.client() as client:
        before = client.show(reference)
        version = client.promote(reference, reason=reason)
        versions = client.versions(version["adapter"])
    label = f"{version['adapter']}:{version['semver']}"
    if before["stage"] == "production":
        newest = f"{version['adapter']}:{versions[0]['semver']}"
        other = "" if newest == label else f" To promote the newest: graftwork promote {newest}."
        print(f"graftwork: {label} is in production already; nothing changed.{other}", file=sys.stderr)
    elif label != reference and len(versions) > 1:
        print(f"graftwork: {reference} meant {label}.", file=sys.stderr)
    write(version, context.output, lambda: print_version(version))


def rollback(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Go back to the version that was in production before."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.rollback(name, reason=reason)
    write(version, context.output, lambda: print_version(version))


def alias_list(ctx: typer.Context, name: Name) -> None:
    """List an adapter's aliases, and who moved them where they are, when and why."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.aliases(name)
    columns = {
        "alias": lambda row: row["alias"],
        "version": lambda row: row["version"],
        "since": lambda row: row["moved_at"],
        "who": lambda row: row["moved_by"],
        "reason": lambda row: row["reason"],
        "digest": lambda row: short_hex(row["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No aliases yet."))


def alias_set(
    ctx: typer.Context,
    name: Name,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="For example champion.")],
    reference: Reference,
    expected: Expected = None,
    reason: Reason = None,
) -> None:
    """Let NAME@ALIAS mean a version."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.set_alias(name, alias, reference, expected=expected, reason=reason)
    write(version, context.output, lambda: print_version(version))


def alias_rm(
    ctx: typer.Context,
    name: Name,
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="The alias to take away.")],
    expected: Expected = None,
    reason: Reason = None,
) -> None:
    """Take an alias away; the version it named stays."""
    context = context_of(ctx)
    with context.client() as client:
        client.remove_alias(name, alias, expected=expected, reason=reason)
    removed = {"name": name, "alias": alias, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def _prepare_base(settings: Any) -> None:
    from graftwork.cli.base import prepared

    prepared(settings)


def _print_adapters(adapters: list[Any]) -> None:
    columns = {
        "name": lambda row: row["name"],
        "production": lambda row: row["production"] and row["production"]["semver"],
        "newest": lambda row: row["newest"]["semver"],
        "versions": lambda row: row["versions"],
        "kind": lambda row: f"{_answering(row)['kind']} r{_answering(row)['rank']}",
        "base": lambda row: _answering(row)["base"],
        "digest": lambda row: short_hex(_answering(row)["digest"]),
    }
    print_table(adapters, columns, empty="No adapters yet. Try: graftwork push DIR NAME", least="base")


def _answering(row: Row) -> Row:
    """The version that the adapter's bare name means."""
    version: Row = row["production"] or row["newest"]
    return version


def _print_versions(versions: list[Any]) -> None:
    columns = {
        "version": lambda row: row["semver"],
        "stage": lambda row: row["stage"],
        "aliases": lambda row: [f"@{alias}" for alias in row["aliases"]],
        **({"approval": lambda row: row["approval"]} if any(row["approval"] != "pending" for row in versions) else {}),
        **({"deprecated": lambda row: deprecation(row)} if any(row["deprecated"] for row in versions) else {}),
        "digest": lambda row: short_hex(row["digest"]),
        "size": lambda row: size(row["bytes"]),
        "created": lambda row: row["created_at"],
    }
    print_table(versions, columns, empty="No versions.")


def print_version(version: Row) -> None:
    account = version.get("account") or {}
    print_facts(
        {
            "version": f"{version['adapter']}:{version['semver']}",
            "digest": version["digest"],
            "stage": version["stage"],
            "approval": version["approval"],
            **({"deprecated": deprecation(version)} if version["deprecated"] else {}),
            **({"forbidden": version["forbidden"]} if version["forbidden"] else {}),
            "aliases": [f"@{alias}" for alias in version["aliases"]],
            "kind": f"{version['kind']}, rank {version['rank']}, {size(version['bytes'])}",
            "base": version["base"],
            "tensors": len(account.get("tensors", ())) or None,
            "files": [file["path"] for file in version["manifest"]["files"]],
            "content": version["semantic_digest"],
            "metadata": [
                f"{key}={as_json(value)}" for key, value in flat(version["metadata"]) if not key.startswith(_SHOWN)
            ],
            "created": f"{version['created_at']} by {version['created_by']}",
        }
    )


def deprecation(version: Row) -> str:
    held = version["deprecated"]
    if not held:
        return ""
    return f"{held['message']} (until {held['until']})" if held["until"] else str(held["message"])


def _details(payload: Row) -> str:
    moves = [
        f"@{move['alias']} → {move['to']['version'] if move['to'] else 'nothing'}" for move in payload.get("moves", ())
    ]
    if not moves:
        moves = [f"{change['version']} → {change['to']}" for change in payload.get("stages", ())]
    if not moves and payload.get("version") is not None:
        moves = [str(payload["version"])]
    reason = payload.get("reason") or payload.get("message")
    return "; ".join([*moves, *([str(reason)] if reason else [])])
