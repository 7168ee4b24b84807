"""`graftwork backup` and `graftwork restore`: database and artifacts of this home, out of it and into an empty one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import print_facts, write
from graftwork.cli.verb import add_verb
from graftwork.errors import Conflict

if TYPE_CHECKING:
    from graftwork.artifacts.stores import BlobStore
    from graftwork.registry.backup import Summary


def add_to(app: typer.Typer) -> None:
    add_verb(app, backup, local=True)
    add_verb(app, restore, local=True)


def backup(
    ctx: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="DIR|FILE.tar", help="Folder or tar file to make.")],
) -> None:
    """Copy the database and the artifacts that it names, consistently, while servers go on working on them."""
    from graftwork.artifacts.stores import open_store
    from graftwork.db import Database
    from graftwork.registry.backup import back_up
    from graftwork.registry.backup.tar import is_tar, pack

    context = context_of(ctx)
    context.refuse_server("A backup is made of the home itself, on its machine")
    settings, target = context.settings(registry=True), target.absolute()
    if target.exists():
        raise Conflict(f"{target} is there already; choose another place for the backup.")
    folder = target
    if is_tar(target):
        folder = target.with_name(f".{target.name}.folder")
        shutil.rmtree(folder, ignore_errors=True)  # of a try that ended while it packed
    with Database(settings.database) as database:
        store = open_store(settings.artifacts, settings.artifacts_keyring)
        summary = back_up(database, store, folder, open_blobs=lambda place: _blobs(context, place))
    if folder != target:
        pack(folder, target)
        shutil.rmtree(folder)
    _tell(context, target, summary)


def restore(
    ctx: typer.Context,
    source: Annotated[Path, typer.Argument(metavar="DIR|FILE.tar", help="What `graftwork backup` made.")],
    check: Annotated[
        bool, typer.Option("--check", help="Only read all of it and compare it with its digests.")
    ] = False,
) -> None:
    """Put a backup into an empty home, or an empty database and the store that the settings name; all or nothing."""
    from graftwork.artifacts.stores import open_store
    from graftwork.registry import backup as backups
    from graftwork.registry.backup.tar import unpacked

    context = context_of(ctx)
    if not check:
        context.refuse_server("A backup is restored into a home itself, on its machine")
    settings = context.settings()
    with unpacked(source.absolute()) as folder:
        blobs = _blobs(context, folder / "blobs")
        if check:
            summary = backups.check(folder, blobs)
        else:
            store = open_store(settings.artifacts, settings.artifacts_keyring)
            summary = backups.restore(folder, blobs, settings.database, store)
    _tell(context, source, summary)


def _blobs(context: Context, folder: Path) -> BlobStore:
    """The store inside a backup: under the same keys, if any, as the artifacts."""
    from graftwork.artifacts.stores import open_store

    return open_store(folder.as_uri(), context.settings().artifacts_keyring)


def _tell(context: Context, place: Path, summary: Summary) -> None:
    facts: dict[str, Any] = {
        "place": str(place),
        "made": summary.created_at,
        "schema": summary.schema,
        "rows": sum(lines.lines for lines in summary.tables.values()),
        "blobs": summary.blobs.lines,
        "events": summary.events,
        "head": summary.head,
    }
    write(facts, context.output, lambda: print_facts(facts))
