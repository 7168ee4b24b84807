"""ResourceVerbs: set, list, show, history, rollback and rm of the resources of one kind, alike for all kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import Columns, Row, print_facts, print_table, short_hex, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping

if TYPE_CHECKING:
    from graftwork.client import Client
    from graftwork.client.resources import Resources

File = Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A document, YAML or JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")]
Expect = Annotated[
    str | None,
    typer.Option("--expect", metavar="DIGEST", help="Only if this revision is live: its digest, absent or present."),
]
Number = Annotated[int | None, typer.Option("--revision", metavar="N", min=1, help="This revision.")]


@dataclass(frozen=True)
class ResourceVerbs:
    """The verbs of one kind, and what they need to know of it."""

    noun: str
    of: Callable[[Client], Resources]
    columns: Columns  #: what is said of each in a list and a history
    facts: Callable[[Row], dict[str, object]]  #: what more is told of one that was changed

    def add_to(self, app: typer.Typer) -> None:
        for verb in (self.set, self.list, self.show, self.history, self.rollback, self.rm):
            add_verb(app, verb)

    def set(self, ctx: typer.Context, file: File, expect: Expect = None, reason: Reason = None) -> None:
        """Make a document what its name means, as a new revision."""
        context, document = context_of(ctx), read_mapping(file, field="file")
        with context.client() as client, naming(file, unless=("reason", "If-Match")):
            made = self.of(client).set(document, expected=expect, reason=reason)
        write(made, context.output, lambda: print_facts(self._facts(made)))

    def list(self, ctx: typer.Context) -> None:
        """List all that there are, by name."""
        context = context_of(ctx)
        with context.client() as client:
            found = self.of(client).list()
        columns = {
            self.noun: lambda row: row["metadata"]["name"],
            "revision": lambda row: row["status"]["revision"],
            **self.columns,
            "by": lambda row: row["status"]["updatedBy"],
            "since": lambda row: row["status"]["updatedAt"],
            "digest": lambda row: short_hex(row["status"]["digest"]),
        }
        write(found, context.output, lambda: print_table(found, columns, empty="There are none.", least="digest"))

    def show(self, ctx: typer.Context, name: Name, revision: Number = None) -> None:
        """Show the live revision, or another, as a document that `set` takes."""
        context = context_of(ctx)
        with context.client() as client:
            document = self.of(client).show(name, revision=revision)
        # A document is for people what it is in a file.
        output = OutputFormat.YAML if context.output is OutputFormat.TABLE else context.output
        write(document, output, lambda: None)

    def history(self, ctx: typer.Context, name: Name) -> None:
        """List all revisions that there were under a name, the newest first."""
        context = context_of(ctx)
        with context.client() as client:
            found = self.of(client).revisions(name)
        columns = {
            "revision": lambda row: row["status"]["revision"],
            "live": lambda row: "live" if row["status"]["live"] else None,
            **self.columns,
            "reason": lambda row: row["status"]["reason"],
            "by": lambda row: row["status"]["createdBy"],
            "created": lambda row: row["status"]["createdAt"],
            "digest": lambda row: short_hex(row["status"]["digest"]),
        }
        write(found, context.output, lambda: print_table(found, columns, empty="No revisions.", least="digest"))

    def rollback(
        self, ctx: typer.Context, name: Name, revision: Number = None, expect: Expect = None, reason: Reason = None
    ) -> None:
        """Make the revision live that was it before, or the one given."""
        context = context_of(ctx)
        with context.client() as client:
            made = self.of(client).rollback(name, revision=revision, expected=expect, reason=reason)
        write(made, context.output, lambda: print_facts(self._facts(made)))

    def rm(self, ctx: typer.Context, name: Name, expect: Expect = None, reason: Reason = None) -> None:
        """Let a name mean nothing any more; its revisions stay."""
        context = context_of(ctx)
        with context.client() as client:
            self.of(client).remove(name, expected=expect, reason=reason)
        removed = {"name": name, "removed": True}
        write(removed, context.output, lambda: print_facts(removed))

    def _facts(self, one: Row) -> dict[str, Any]:
        status = one["status"]
        facts = {self.noun: one["metadata"]["name"], "revision": status["revision"], **self.facts(one)}
        return {name: value for name, value in {**facts, "digest": status["digest"]}.items() if value is not None}
