"""`graftwork base`: the base model, and those that the registry knows: show, list, register, push, pull, prepare."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import print_facts, print_table, short_hex, size, write
from graftwork.cli.verb import add_verb

if TYPE_CHECKING:
    from graftwork.models.base import PreparedBase
    from graftwork.settings import Settings

base_app = typer.Typer(no_args_is_help=True, help="The base model that all adapters share.")

_REFERENCE = "NAME, or NAME@sha256:… of the base or its weights"
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="BASE",
        help="Built-in name, Hugging Face folder or hub id; default smollm2-135m, or GRAFTWORK_BASE.",
    ),
]


def add_to(app: typer.Typer) -> None:
    for verb in (show, list_, register, push, pull):
        add_verb(base_app, verb, verb.__name__.rstrip("_"))
    add_verb(base_app, prepare, local=True)
    app.add_typer(base_app, name="base")


def show(
    ctx: typer.Context,
    reference: Annotated[str | None, typer.Argument(metavar="[REF]", help=f"A recorded base: {_REFERENCE}.")] = None,
) -> None:
    """Show the base of the server at --url, or the one that is configured here; with REF, a recorded one."""
    context = context_of(ctx)
    if reference is not None:
        with context.client() as client:
            _show_record(context, client.bases.show(reference))
        return
    if context.url is None:
        prepared(context.settings())
    with context.client() as client:
        facts = client.base()
    write(facts, context.output, lambda: print_facts(_in_words(facts)))


def list_(ctx: typer.Context) -> None:
    """List the recorded bases: those that versions were pushed for, and those that were registered or pushed."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.bases.list()
    columns = {
        "name": lambda row: row["name"],
        "source": lambda row: f"{row['source']}{_at(row)}",
        "architecture": lambda row: row["architecture"],
        "stored": lambda row: size(row["stored_bytes"]) if row["stored_bytes"] else None,
        "weights": lambda row: short_hex(row["weights_digest"]),
        "digest": lambda row: short_hex(row["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No bases yet.", least="weights"))


def register(ctx: typer.Context) -> None:
    """Record the base of the server at --url, or the one that is configured here."""
    context = context_of(ctx)
    if context.url is None:
        prepared(context.settings())
    with context.client() as client:
        _show_record(context, client.bases.register())


def push(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Hugging Face folder with safetensors.")],
    name: Annotated[str | None, typer.Option(help="What to call it; default made of the folder's name.")] = None,
    source: Annotated[str | None, typer.Option(help="Where it came from, such as a hub id.")] = None,
    revision: Annotated[str | None, typer.Option(help="Revision of that source.")] = None,
) -> None:
    """Keep the files of a base in the artifact store: config, tokenizer and safetensors, by their digests."""
    context = context_of(ctx)
    with context.client() as client:
        _show_record(context, client.bases.push(folder, name=name, source=source, revision=revision))


def pull(
    ctx: typer.Context,
    reference: Annotated[str, typer.Argument(metavar="REF", help=f"{_REFERENCE}.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to make.")],
) -> None:
    """Bring the files of a stored base into a new folder, every byte checked; a second try goes on where one broke."""
    context = context_of(ctx)
    with context.client() as client:
        _show_record(context, client.bases.pull(reference, folder))


def _show_record(context: Context, base: Mapping[str, Any]) -> None:
    parts = ("digest", "weights_digest", "config_digest", "tokenizer_digest", "template_digest", "outline_digest")
    facts = {
        "name": base["name"],
        "from": f"{base['source']}{_at(base)}",
        "architecture": base["architecture"],
        **{part.replace("_", " "): base[part] for part in parts},
        "stored": size(base["stored_bytes"]) if base["stored_bytes"] else None,
        "files": [file["path"] for file in (base["manifest"] or {"files": ()})["files"]],
        "recorded": f"{base['created_at']} by {base['created_by']}",
    }
    write(base, context.output, lambda: print_facts(facts))


def _at(base: Mapping[str, Any]) -> str:
    return f" at {base['revision']}" if base["revision"] else ""


def prepare(ctx: typer.Context, base: Base = None) -> None:
    """Unpack or download the base and write its outline, once; later starts find it."""
    context = context_of(ctx)
    found = prepared(context.settings(base=base))
    outline = asdict(found.outline)
    facts = {"name": found.name, "folder": str(found.folder)}
    facts |= {key: outline[key] for key in ("architecture", "dtype", "max_context", "weights_digest")}
    write(facts, context.output, lambda: print_facts(facts))


def _in_words(facts: Mapping[str, Any]) -> dict[str, object]:
    """What a person asks of a base; `--output json` has the rest."""
    queries, pairs = facts["num_heads"], facts["num_kv_heads"]
    return {
        "name": facts["name"],
        "from": f"{facts['source']}{_at(facts)}",
        "architecture": facts["architecture"],
        "layers": f"{facts['num_layers']}, {facts['hidden_size']} wide",
        "heads": f"{queries} of queries, {pairs} of keys and values, {facts['head_dim']} wide",
        "vocabulary": f"{facts['vocab_size']} tokens",
        "context": f"{facts['max_context']} tokens",
        "number format": facts["dtype"],
        "adaptable": f"{facts['linear_sites']} linear layers",
        "weights": facts["weights_digest"],
    }


def prepared(settings: Settings) -> PreparedBase:
    """The configured base, made ready with a progress bar where that has not happened yet.

    Raises:
        Refused: it cannot be served.
    """
    from graftwork.models.base import find_base

    found = find_base(settings)
    if found is not None:
        return found
    from graftwork.models.prepare import prepare_base

    with progress_bar(f"preparing the base {settings.base}") as advance:
        return prepare_base(settings, advance)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, one line where that is no terminal; the function moves it to (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        print(f"{title} …", file=sys.stderr, flush=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
