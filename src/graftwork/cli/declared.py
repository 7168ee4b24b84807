"""The verbs of resources as files: plan, apply, lint; `export` is in `exporting.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import as_json, print_table, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

if TYPE_CHECKING:
    from graftwork.cli.document_files import DocumentFiles

#: How a plan ends that would change something.
CHANGES: Final = 3
_SIGNS: Final = {"create": "+", "update": "~", "delete": "-"}
_SHOWN: Final = 100  # characters of a value

File = Annotated[
    list[str],
    typer.Option(
        "--file", "-f", metavar="FILE", help="YAML or JSON; a folder with all below it; - for stdin. Repeatable."
    ),
]
Set = Annotated[
    str | None,
    typer.Option(
        "--set", metavar="NAME", help="What the documents are called together; default as their folder or file."
    ),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Take away what an earlier apply of the set made and the documents do not have.")
]
PruneAll = Annotated[
    bool, typer.Option("--prune-all", help="Take away all that the documents do not have, whoever made it.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", metavar="TENANT", help="Whose; default your own.")]


def add_to(app: typer.Typer) -> None:
    add_verb(app, plan)
    add_verb(app, apply)
    add_verb(app, lint, local=True)


def plan(
    ctx: typer.Context,
    file: File,
    set: Set = None,
    prune: Prune = False,
    prune_all: PruneAll = False,
    tenant: Tenant = None,
) -> None:
    """Show what applying documents would change: exits 0 where nothing, 3 where something, 1 where it is refused."""
    from graftwork.cli.document_files import read_documents, set_of

    context, found = context_of(ctx), read_documents(file)
    (name, implied), kept = set_of(set, file, pruned=prune), _prune(prune, prune_all)
    with context.client() as client, found.told():
        made = client.declared.plan(found.documents, set=name, implied=implied, prune=kept, tenant=tenant)
    _show(context, made, found)
    if made["problems"]:
        raise typer.Exit(1)
    if made["changes"]:
        raise typer.Exit(CHANGES)


def apply(
    ctx: typer.Context,
    file: File,
    set: Set = None,
    prune: Prune = False,
    prune_all: PruneAll = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look; as plan, but exits 0.")] = False,
    seen: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Only if this plan, in JSON, is still what comes of it."),
    ] = None,
    tenant: Tenant = None,
    reason: Reason = None,
) -> None:
    """Make it so, all of it in one transaction or nothing."""
    from graftwork.cli.document_files import read_documents, set_of

    context, found = context_of(ctx), read_documents(file)
    (name, implied), kept = set_of(set, file, pruned=prune), _prune(prune, prune_all)
    expected = None if seen is None else _plan_in(seen)
    with context.client() as client, found.told():
        made = client.declared.apply(
            found.documents,
            set=name,
            implied=implied,
            prune=kept,
            reason=reason,
            plan=expected,
            dry_run=dry_run,
            tenant=tenant,
        )
    _show(context, made, found)
    if made["problems"]:
        raise typer.Exit(1)


def lint(ctx: typer.Context, file: File) -> None:
    """Check documents without a server: their fields, names, doubles, and what they name of one another."""
    from graftwork.cli.document_files import read_documents
    from graftwork.declared.document import dangling, doubles, in_order, read_document
    from graftwork.errors import InvalidResource

    context, given = context_of(ctx), read_documents(file)
    read, errors = [], []
    for place, document in enumerate(given.documents):
        try:
            read.append(read_document(document, place))
        except InvalidResource as error:
            errors.append(error)
    errors += doubles(read)
    told = [_told("error", error, given) for error in errors]
    told += [_told("warning", error, given) for error in dangling(in_order(read))]
    columns = {name: lambda row, name=name: row[name] for name in ("level", "where", "message")}
    good = f"{len(given.documents)} documents, nothing to say."
    write(told, context.output, lambda: print_table(told, columns, empty=good))
    if errors:
        raise typer.Exit(1)


def _prune(own: bool, everything: bool) -> str | None:
    if own and everything:
        raise InvalidRequest("Give --prune or --prune-all.", field="settings")
    return "all" if everything else "set" if own else None


def _plan_in(file: Path) -> dict[str, Any]:
    from graftwork.protocol.declared import PlanAnswer

    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        PlanAnswer.model_validate(found)
        return dict(found)
    except (ValueError, RecursionError):
        pass
    raise InvalidRequest(f"{file} is no plan; `graftwork plan … --output json` writes one.", field="settings")


def _told(level: str, error: InvalidRequest, given: DocumentFiles) -> dict[str, Any]:
    return {"level": level, "where": given.place_of(error.field), "field": error.field, "message": error.message}


def _show(context: Context, made: dict[str, Any], found: DocumentFiles) -> None:
    """What stands in the way comes first: nothing of the rest is done then."""
    for problem in made["problems"]:
        field = problem["field"] or (None if problem["document"] is None else f"documents.{problem['document']}")
        place = found.place_of(field)
        print(f"graftwork: {f'{place}: ' if place else ''}{problem['message']}", file=sys.stderr)
    write(made, context.output, lambda: _print_plan(made))
    for warning in made["warnings"]:
        print(f"graftwork: {warning}", file=sys.stderr)


def _print_plan(made: dict[str, Any]) -> None:
    for step in made["steps"]:
        if step["action"] != "unchanged" or step["note"]:
            note = f"  ({step['note']})" if step["note"] else ""
            name = f"{step['kind']}/{step['name']}" if step["name"] else step["kind"]
            print(f"{_SIGNS.get(step['action'], ' ')} {step['action']:<9}  {name}{note}")
            for field in step["fields"]:
                print(f"      {field['field']}{_change(field)}")
            if step.get("secret"):
                print(f"      secret, shown this once: {step['secret']}")
    if made["problems"]:
        print(f"Set {made['set']}: refused, so that nothing was changed.")
        return
    counted = dict.fromkeys(("create", "update", "delete", "unchanged"), 0)
    for step in made["steps"]:
        counted[step["action"]] += 1
    done = ("created", "updated", "deleted") if made["applied"] else ("to create", "to update", "to delete")
    words = dict(zip(counted, (*done, "unchanged"), strict=True))
    told = ", ".join(f"{number} {words[action]}" for action, number in counted.items())
    print(f"Set {made['set']}: {told}.")


def _change(field: dict[str, Any]) -> str:
    ends = [_short(field[name]) if name in field else "(not there)" for name in ("before", "after")]
    return f": {ends[0]} → {ends[1]}" if len(field) > 1 else ""


def _short(value: object) -> str:
    text = as_json(value) if value != "" else '""'
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
