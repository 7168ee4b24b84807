"""`graftwork export`: a version as a package, or without one all resources as documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from graftwork.cli import moving
from graftwork.cli.context import Context, OutputFormat, context_of
from graftwork.cli.declared import Tenant
from graftwork.cli.output import print_facts
from graftwork.errors import InvalidRequest

STDOUT: Final = "-"
_PACKAGES: Final = tuple(moving.PackageFormat)


def add_to(app: typer.Typer) -> None:
    app.command("export")(export)


def export(
    ctx: typer.Context,
    reference: Annotated[
        str | None, typer.Argument(metavar="[REFERENCE]", help="A version; without it, all resources are written.")
    ] = None,
    target: Annotated[
        Path | None, typer.Argument(metavar="[TARGET]", help="Of a version: folder to make, or a file NAME.tar.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help="Who reads it: of a version folder (PEFT, default), hub, oci, mlflow; of what is live vllm, triton.",
        ),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only resources of this kind; repeatable.")
    ] = None,
    tenant: Tenant = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR|-|json|yaml",
            help="Of resources: folder to write, or stdout, which is default.",
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Server to speak to; default GRAFTWORK_URL, else none.")
    ] = None,
) -> None:
    """Write a version with all that is kept with it, or all resources as documents that `apply` takes."""
    context = context_of(ctx) if url is None else replace(context_of(ctx), url=url)
    if reference is None:
        if format is not None:
            _write_server(context, format, output)
            return
        _write_resources(context, kind or (), tenant, output)
        return
    if target is None or kind or tenant is not None:
        raise InvalidRequest(
            "Of a version give REFERENCE and TARGET, and neither --kind nor --tenant.", field="settings"
        )
    if format not in (None, *_PACKAGES):
        raise InvalidRequest(f"--format of a version is one of {', '.join(_PACKAGES)}.", field="settings")
    if output is not None:
        if output not in tuple(OutputFormat):
            raise InvalidRequest(f"--output of a version is one of {', '.join(OutputFormat)}.", field="settings")
        context = replace(context, output=OutputFormat(output))
    moving.write_package(context, reference, target, moving.PackageFormat(format or "folder"))


def _write_resources(context: Context, kinds: Sequence[str], tenant: str | None, output: str | None) -> None:
    from graftwork.cli.yaml_text import write_text
    from graftwork.protocol.declared import MAX_DOCUMENTS

    with context.client(registry=True) as client:
        made = client.declared.export(kinds, tenant=tenant)
    if made["left_out"]:
        print(f"graftwork: left out, as your key may not see it: {', '.join(made['left_out'])}.", file=sys.stderr)
    if len(made["documents"]) > MAX_DOCUMENTS:
        print(
            f"graftwork: these are {len(made['documents'])} documents, and apply takes {MAX_DOCUMENTS} at once: write "
            "a folder with --output DIR, and apply each of its files by itself.",
            file=sys.stderr,
        )
    output = output or context.output.value
    if output == OutputFormat.JSON:
        print(json.dumps(made, indent=2, ensure_ascii=False))
    elif output in (STDOUT, OutputFormat.YAML, OutputFormat.TABLE):
        print(write_text(made["documents"]), end="")
    else:
        written = _write_folder(Path(output), made["documents"])
        print_facts({"documents": len(made["documents"]), "written": ", ".join(map(str, written)) or "nothing"})


def _write_server(context: Context, format: str, output: str | None) -> None:
    from graftwork.client.servers import SERVERS, write_for

    if format not in SERVERS:
        raise InvalidRequest(
            f"Without a REFERENCE, --format is one of {', '.join(SERVERS)}; with one, of {', '.join(_PACKAGES)}.",
            field="settings",
        )
    if output is None or output in (STDOUT, *OutputFormat):
        raise InvalidRequest("Say with --output which folder to make.", field="settings")
    with context.client(registry=True) as client:
        served, notes = write_for(client, format, Path(output))
    for note in notes:
        print(f"graftwork: {note}", file=sys.stderr)
    print_facts({one.name: one.reference for one in served})


def _write_folder(folder: Path, documents: Sequence[dict[str, Any]]) -> list[Path]:
    """Files of each kind, one where apply takes as many at once, in a new or empty folder: what lies there otherwise
    would be applied, too.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequest(f"{folder} is there, and not an empty folder; name a new one.", field="settings")
    from graftwork.cli.yaml_text import write_text
    from graftwork.protocol.declared import MAX_DOCUMENTS

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in dict.fromkeys(document["kind"] for document in documents):
        found = [one for one in documents if one["kind"] == kind]
        for at in range(0, len(found), MAX_DOCUMENTS):
            file = folder / f"{kind.lower()}{f'-{at // MAX_DOCUMENTS + 1}' if at else ''}.yaml"
            file.write_text(write_text(found[at : at + MAX_DOCUMENTS]), encoding="utf-8")
            written.append(file)
    return written
