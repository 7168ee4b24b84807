"""The verbs that move versions out of a registry and into another: pull, import; and what export does of one."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import print_facts, size, write
from graftwork.cli.registry import Reference
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming


class PackageFormat(StrEnum):
    """As in `client.formats.FORMATS`."""

    FOLDER = "folder"
    HUB = "hub"
    OCI = "oci"
    MLFLOW = "mlflow"


def add_to(app: typer.Typer) -> None:
    add_verb(app, pull)
    add_verb(app, import_, "import")


def pull(
    ctx: typer.Context,
    reference: Reference,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make.")],
) -> None:
    """Bring the files of a version into a new folder, as they were pushed; a second try goes on where one broke."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.pull(reference, folder)
    write(version, context.output, lambda: print_facts(_version(version) | {"folder": folder}))


def write_package(context: Context, reference: str, target: Path, format: PackageFormat) -> None:
    """A version with its metadata, documents, signatures and evaluations, in a new folder or tar."""
    with context.client() as client:
        made = client.packages.export(reference, target, format=format.value)
    facts = {"format": made["format"], "written": made["target"], "tar": made.get("target_digest")}
    write(made, context.output, lambda: print_facts(_version(made) | {k: v for k, v in facts.items() if v}))


def import_(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="Folder or tar, hf://ORG/NAME[@REVISION], models:/NAME/VERSION of MLflow."
        ),
    ],
    reference: Annotated[
        str | None, typer.Argument(metavar="[NAME[:SEMVER]]", help="What to call it; default what the package says.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PEM", help="Refuse what is not signed with the key of this public key.")
    ] = None,
) -> None:
    """Register what another registry, the Hugging Face Hub or MLflow gave out: checked as a push is."""
    from graftwork.cli.base import prepared

    context, pem = context_of(ctx), key.read_bytes() if key is not None else None
    with context.client() as client, naming(key, only=("key",)):
        if context.url is None:
            prepared(context.settings())
        version = client.packages.import_(source, reference, public_key=pem)
    if not version["created"]:
        print("graftwork: these bytes were registered before; only what was kept with them was added.", file=sys.stderr)
    for note in version["notes"]:
        print(f"graftwork: {note}", file=sys.stderr)
    added = ", ".join(f"{number} {what}" for what, number in version["added"].items())
    write(version, context.output, lambda: print_facts(_version(version) | {"added": added}))


def _version(version: Any) -> dict[str, object]:
    return {
        "version": f"{version['adapter']}:{version['semver']}",
        "digest": version["digest"],
        "kind": f"{version['kind']}, rank {version['rank']}, {size(version['bytes'])}",
        "base": version["base"],
    }
