"""The verbs of tasks: task set, list, show, history, rm, run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import print_facts, print_table, short_hex, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping
from graftwork.errors import InvalidRequest

Name = Annotated[str, typer.Argument(metavar="NAME", help="The task.")]
Expect = Annotated[
    str | None, typer.Option("--expect", metavar="DIGEST", help="Only if it has this digest now; absent: is not there.")
]

task_app = typer.Typer(no_args_is_help=True, help="Ask for results of a type, by the name of a task.")


def add_to(app: typer.Typer) -> None:
    add_verb(task_app, task_set, "set")
    add_verb(task_app, task_list, "list")
    add_verb(task_app, task_show, "show")
    add_verb(task_app, task_history, "history")
    add_verb(task_app, task_rm, "rm")
    add_verb(task_app, task_run, "run")
    app.add_typer(task_app, name="task")


def task_set(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A document of kind Task, YAML or JSON.")],
    expected: Expect = None,
    reason: Reason = None,
) -> None:
    """Make a document what its name means, as a new revision."""
    context, document = context_of(ctx), read_mapping(file, field="file")
    with context.client() as client, naming(file, unless=("reason", "expected")):
        task = client.tasks.set(document, expected=expected, reason=reason)
    write(task, context.output, lambda: print_facts(_facts(task)))


def task_list(ctx: typer.Context) -> None:
    """List the tasks, and which version their adapters mean now."""
    context = context_of(ctx)
    with context.client() as client:
        tasks = client.tasks.list()
    columns = {
        "task": lambda row: row["metadata"]["name"],
        "gives": lambda row: row["spec"]["output"]["type"],
        "adapter": lambda row: row["spec"].get("adapter", "(base)"),
        "answers": lambda row: row["status"]["answers"] or "nothing yet",
        "revision": lambda row: row["status"]["revision"],
        "since": lambda row: row["status"]["updated_at"],
    }
    write(tasks, context.output, lambda: print_table(tasks, columns, empty="No tasks.", least="since"))


def task_show(ctx: typer.Context, name: Name) -> None:
    """Show a task as it is in a file."""
    context = context_of(ctx)
    with context.client() as client:
        task = client.tasks.show(name)
    # A document is for people what it is in a file.
    write(task, OutputFormat.YAML if context.output is OutputFormat.TABLE else context.output, lambda: None)


def task_history(ctx: typer.Context, name: Name) -> None:
    """List what a task was, the newest first, with who and why."""
    context = context_of(ctx)
    with context.client() as client:
        revisions = client.tasks.revisions(name)
    columns = {
        "revision": lambda row: row["revision"],
        "gives": lambda row: row["spec"]["output"]["type"],
        "adapter": lambda row: row["spec"].get("adapter", "(base)"),
        "digest": lambda row: short_hex(row["digest"]),
        "at": lambda row: row["created_at"],
        "by": lambda row: row["created_by"],
        "reason": lambda row: row["reason"],
    }
    write(revisions, context.output, lambda: print_table(revisions, columns, empty=""))


def task_rm(ctx: typer.Context, name: Name, expected: Expect = None, reason: Reason = None) -> None:
    """Let a name mean nothing any more; its revisions stay."""
    context = context_of(ctx)
    with context.client() as client:
        client.tasks.remove(name, expected=expected, reason=reason)
    removed = {"name": name, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def task_run(
    ctx: typer.Context,
    name: Name,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="One or several; - reads one from stdin.")],
    field: Annotated[
        list[str] | None, typer.Option("--field", metavar="NAME=VALUE", help="A field; JSON, or else a text.")
    ] = None,
    adapter: Annotated[
        str | None, typer.Option("--adapter", metavar="REF", help="Who answers in place of the task's adapter.")
    ] = None,
) -> None:
    """Run a task on one text, or on several in one batch, and show what it comes to."""
    context, fields = context_of(ctx), dict(map(_field, field or ()))
    inputs = [sys.stdin.read() if text == "-" else text for text in texts]
    with context.client(engine=True) as client:
        if len(inputs) == 1:
            made = client.tasks.run(name, inputs[0], fields=fields, adapter_id=adapter)
            rows = [made]
        else:
            made = client.tasks.run_each(name, inputs, fields=fields, adapter_id=adapter)
            rows = made["data"]
    write(made, context.output, lambda: _print_results(rows))
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequest(f"--field {text!r} is no NAME=VALUE.", field="settings")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _print_results(rows: list[dict[str, Any]]) -> None:
    """Each result on a line; a text as it is, everything else as JSON. What failed is told on stderr."""
    for row in rows:
        if row["error"]:
            print(f"graftwork: {row['error']['message']}", file=sys.stderr)
        else:
            result = row["result"]
            print(result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


def _facts(task: dict[str, Any]) -> dict[str, object]:
    status = task["status"]
    return {
        "task": task["metadata"]["name"],
        "revision": status["revision"],
        "answers": status["answers"] or "nothing yet",
        "digest": status["digest"],
    }
