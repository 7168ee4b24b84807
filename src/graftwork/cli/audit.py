"""`graftwork audit`: the event log: what happened, whether its chain holds, its head, an export of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import Columns, print_facts, print_table, write
from graftwork.cli.verb import add_verb

audit_app = typer.Typer(no_args_is_help=True, help="What happened, who did it, and whether the record of it holds.")

_COLUMNS: Columns = {
    "position": lambda event: event["position"],
    "at": lambda event: event["at"],
    "who": lambda event: event["actor"],
    "what": lambda event: event["kind"],
    "subject": lambda event: event["subject"],
    "reason": lambda event: event["payload"].get("reason"),
    "request": lambda event: event["payload"].get("request_id"),
}
Expected = Annotated[
    str | None, typer.Option(metavar="HASH", help="A head that was noted down before and must still be in the log.")
]


def add_to(app: typer.Typer) -> None:
    for verb in (log, verify, head, export):
        add_verb(audit_app, verb)
    app.add_typer(audit_app, name="audit")


def log(
    ctx: typer.Context,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind, such as version.created.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only those about this, such as adapters/NAME.")] = None,
    actor: Annotated[str | None, typer.Option(help="Only what this one did.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Not before, as 2026-01-31T09:30:00Z.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Before.")] = None,
    after: Annotated[int, typer.Option(metavar="POSITION", min=0, help="From the one after this position.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with events as they come, until Ctrl-C.")] = False,
) -> None:
    """Show your events in order; with --follow a line for each, in JSON a document for each."""
    context = context_of(ctx)
    filters = {"kind": kind, "subject": subject, "actor": actor, "since": since, "until": until}
    with context.client() as client:
        if not follow:
            found = client.events.list(after=after, **filters)
            write(found, context.output, lambda: print_table(found, _COLUMNS, empty="No such events."))
            return
        try:
            for event in client.events.follow(after=after, **filters):
                print(_line(event, context.output), flush=True)
        except KeyboardInterrupt:
            return


def verify(
    ctx: typer.Context,
    expected_head: Expected = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="An export instead of the log itself.")] = None,
) -> None:
    """Check every hash of the log, or of an export without any database; exits 1 and says where it does not hold."""
    context = context_of(ctx)
    if file is not None:
        from graftwork.access.event_file import verify_file

        report = verify_file(file, expected_head).to_json()
    else:
        with context.client(registry=True) as client:
            report = client.events.verify(expected_head=expected_head)
    write(report, context.output, lambda: print_facts(report))
    if not report["ok"]:
        raise typer.Exit(1)


def head(ctx: typer.Context) -> None:
    """Show how many events there are and the hash of the last one; who keeps it elsewhere notices a cut."""
    context = context_of(ctx)
    with context.client(registry=True) as client:
        found = client.events.head()
    write(found, context.output, lambda: print_facts(found))


def export(ctx: typer.Context, file: Annotated[Path, typer.Argument(metavar="FILE", help="File to make.")]) -> None:
    """Write the log as lines of JSON with their hashes, which `audit verify --file` checks by themselves."""
    context = context_of(ctx)
    with context.client(registry=True) as client:
        report = client.events.export(file)
    write(report, context.output, lambda: print_facts(report))


def _line(event: dict[str, Any], output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        return json.dumps(event, ensure_ascii=False)
    if output is OutputFormat.YAML:
        import yaml

        return "---\n" + str(yaml.safe_dump(event, sort_keys=False, allow_unicode=True)).rstrip()
    return "  ".join(str(cell(event) or "-") for cell in _COLUMNS.values())
