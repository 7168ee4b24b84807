"""The verbs of tasks: those of any resource, and task run."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Row, write
from graftwork.cli.resource import Name, ResourceVerbs
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

task_app = typer.Typer(no_args_is_help=True, help="Ask for results of a type, by the name of a task.")


def add_to(app: typer.Typer) -> None:
    _VERBS.add_to(task_app)
    add_verb(task_app, task_run, "run")
    app.add_typer(task_app, name="task")


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


def _answers(task: Row) -> str:
    return task["status"]["answers"] or "nothing yet"


_VERBS = ResourceVerbs(
    "task",
    lambda client: client.tasks,
    {
        "gives": lambda row: row["spec"]["output"]["type"],
        "adapter": lambda row: row["spec"].get("adapter", "(base)"),
        "answers": _answers,
    },
    lambda task: {"answers": _answers(task)},
)
