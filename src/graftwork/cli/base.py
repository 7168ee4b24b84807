"""`graftwork base`: the base model: show it, prepare it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, write
from graftwork.cli.verb import add_verb

if TYPE_CHECKING:
    from graftwork.models.base import PreparedBase
    from graftwork.settings import Settings

base_app = typer.Typer(no_args_is_help=True, help="The base model that all adapters share.")

Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="BASE",
        help="Built-in name, Hugging Face folder or hub id; default smollm2-135m, or GRAFTWORK_BASE.",
    ),
]


def add_to(app: typer.Typer) -> None:
    add_verb(base_app, show)
    add_verb(base_app, prepare, local=True)
    app.add_typer(base_app, name="base")


def show(ctx: typer.Context) -> None:
    """Show the base of the server at --url, or the one that is configured here."""
    context = context_of(ctx)
    if context.url is None:
        prepared(context.settings())
    with context.client() as client:
        facts = client.base()
    write(facts, context.output, lambda: print_facts(_in_words(facts)))


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
    revision = f" at {facts['revision']}" if facts["revision"] else ""
    queries, pairs = facts["num_heads"], facts["num_kv_heads"]
    return {
        "name": facts["name"],
        "from": f"{facts['source']}{revision}",
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
    """A bar on stderr; the function moves it to (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
