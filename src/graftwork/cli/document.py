"""The verbs of what is kept with a version: document add, list and get; card show and edit; bom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import Row, print_facts, print_table, short_hex, size, write
from graftwork.cli.registry import Reference
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming

Note = Annotated[str, typer.Option(help="What it is about, or why it was added.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `document list` shows it.")]
Into = Annotated[Path | None, typer.Option("--file", metavar="PATH", help="Where to write it; else to stdout.")]

document_app = typer.Typer(no_args_is_help=True, help="Keep documents with a version; they change nothing it serves.")
card_app = typer.Typer(no_args_is_help=True, help="Show or write a version's model card.")


def add_to(app: typer.Typer) -> None:
    for verb in (add, list_, get):
        add_verb(document_app, verb, verb.__name__.rstrip("_"))
    add_verb(card_app, card_show, "show")
    add_verb(card_app, card_edit, "edit")
    app.add_typer(document_app, name="document")
    app.add_typer(card_app, name="card")
    add_verb(app, bom)


def add(
    ctx: typer.Context,
    reference: Reference,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to keep.")],
    kind: Annotated[
        str,
        typer.Option(
            help="model_card, tokenizer, chat_template, training_log, evaluation_report, data_schema, compliance, "
            "feature_encoder or other."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="Its name; the file's own when not given.")] = None,
    media_type: Annotated[str | None, typer.Option(help="Its media type; by its name when not given.")] = None,
    note: Note = "",
) -> None:
    """Add a document to a version; one of the same kind and name is superseded and stays readable."""
    context = context_of(ctx)
    with context.client() as client:
        added = client.documents.add(reference, file, kind=kind, name=name, media_type=media_type, note=note)
    if not added["created"]:
        print("graftwork: its last revision is the same; nothing changed.", file=sys.stderr)
    write(added, context.output, lambda: _print_document(added))


def list_(
    ctx: typer.Context,
    reference: Reference,
    kind: Annotated[str | None, typer.Option(help="Only documents of this kind.")] = None,
    superseded: Annotated[bool, typer.Option("--superseded", help="Earlier revisions, too.")] = False,
) -> None:
    """List what is kept with a version: companions in its bundle, and documents that were added."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.documents.list(reference, kind=kind, superseded=superseded)
    columns = {
        "id": lambda row: row["id"],
        "kind": lambda row: row["kind"],
        "name": lambda row: row["name"],
        "revision": lambda row: row["revision"],
        "size": lambda row: size(row["size"]),
        "digest": lambda row: short_hex(row["digest"]),
        "created": lambda row: row["created_at"],
        "note": lambda row: row["note"],
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No documents.", least="digest"))


def get(ctx: typer.Context, reference: Reference, document: Id, into: Into = None) -> None:
    """Read a document: its bytes, and with --file or --output also what is known of it."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.documents.get(reference, document)
        if into is None and context.output is not OutputFormat.TABLE:
            write(found, context.output, lambda: None)
            return
        with client.documents.content(reference, document) as chunks:
            if into is None:
                sys.stdout.buffer.writelines(chunks)
                return
            with into.open("xb") as file:
                try:
                    file.writelines(chunks)
                except BaseException:
                    into.unlink()  # half of a document is none
                    raise
    write(found, context.output, lambda: _print_document(found))


def card_show(ctx: typer.Context, reference: Reference) -> None:
    """Show the model card: what is known of the version, around what people wrote."""
    context = context_of(ctx)
    with context.client() as client:
        card = client.documents.card(reference)
    write({"card": card}, context.output, lambda: print(card, end=""))


def card_edit(
    ctx: typer.Context,
    reference: Reference,
    file: Annotated[Path, typer.Option("--file", metavar="PATH", help="The card that you wrote, in Markdown.")],
    note: Note = "",
) -> None:
    """Write your part of the model card; what is generated in it is generated anew whenever it is shown."""
    context = context_of(ctx)
    card = file.read_text(encoding="utf-8")
    with context.client() as client, naming(file, only=("card",)):
        added = client.documents.edit_card(reference, card, note=note)
    write(added, context.output, lambda: _print_document(added))


def bom(ctx: typer.Context, reference: Reference) -> None:
    """Write a version's bill of materials: CycloneDX 1.6, in JSON."""
    context = context_of(ctx)
    with context.client() as client:
        bill = client.documents.bom(reference)
    write(bill, OutputFormat.YAML if context.output is OutputFormat.YAML else OutputFormat.JSON, lambda: None)


def _print_document(document: Row) -> None:
    shown = ("id", "kind", "name", "revision", "media_type", "digest", "note")
    facts = {name: document[name] for name in shown} | {"size": size(document["size"])}
    print_facts(facts | {"created": f"{document['created_at']} by {document['created_by']}"})
