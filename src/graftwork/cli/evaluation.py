"""The verbs of evaluations: evaluation add, import, list, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Row, print_facts, print_table, write
from graftwork.cli.registry import Reference
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming

#: Fields that an evaluation's own file does not hold.
_ELSEWHERE = ("reference", "examples", "file")

evaluation_app = typer.Typer(no_args_is_help=True, help="Keep and show what was measured of versions.")


def add_to(app: typer.Typer) -> None:
    for verb in (add, import_, list_, show):
        add_verb(evaluation_app, verb, verb.__name__.rstrip("_"))
    app.add_typer(evaluation_app, name="evaluation")


def add(
    ctx: typer.Context,
    reference: Reference,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The evaluation, as JSON or YAML.")],
    examples: Annotated[
        Path | None, typer.Option(metavar="JSONL", help='Results by example: lines {"id": …, "scores": {…}}.')
    ] = None,
    report: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A file to attach; repeatable.")] = None,
) -> None:
    """Keep an evaluation of a version; nothing changes it later."""
    from graftwork.registry.evaluations.files import read_evaluation_file

    context, body = context_of(ctx), read_evaluation_file(file)
    inside = naming(file, unless=_ELSEWHERE)
    with context.client() as client, inside, naming(examples, only=("examples",)):
        made = client.evaluations.add(reference, body, examples=examples, reports=report or ())
    write(made, context.output, lambda: _print_one(made))


def import_(
    ctx: typer.Context,
    reference: Reference,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="results_*.json of lm-evaluation-harness, a model card, or .eval_results."),
    ],
) -> None:
    """Keep what is in result files of other tools."""
    context = context_of(ctx)
    with context.client() as client:
        made = [one for file in files for one in client.evaluations.import_file(reference, file)]
    write(made, context.output, lambda: _print_list(made))


def list_(
    ctx: typer.Context,
    reference: Reference,
    family: Annotated[str | None, typer.Option(help="Only task, inference, drift or business.")] = None,
    name: Annotated[str | None, typer.Option(help="Only those of this name.")] = None,
) -> None:
    """List a version's evaluations, the newest first."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.evaluations.list(reference, family=family, name=name)
    write(found, context.output, lambda: _print_list(found))


def show(
    ctx: typer.Context,
    reference: Reference,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="As the list gives it.")],
) -> None:
    """Show one evaluation of a version."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.evaluations.show(reference, number)
    write(found, context.output, lambda: _print_one(found))


def _print_list(found: list[Any]) -> None:
    columns = {
        "number": lambda row: row["number"],
        "family": lambda row: row["evaluation"]["family"],
        "name": lambda row: row["evaluation"]["name"],
        "split": lambda row: row["evaluation"].get("split"),
        "metrics": _metrics,
        "superseded by": lambda row: row["superseded_by"],
        "added": lambda row: row["created_at"],
    }
    print_table(found, columns, empty="No evaluations. Try: graftwork evaluation add REF FILE", least="added")


def _print_one(row: Row) -> None:
    said = row["evaluation"]
    print_facts(
        {
            "version": f"{row['adapter']}:{row['version']}",
            "number": row["number"],
            "superseded by": row["superseded_by"],
            **{field: said.get(field) for field in ("family", "name", "split", "source", "measured_at", "notes")},
            **{field: _pairs(said[field]) for field in ("tool", "dataset", "load", "conditions") if field in said},
            "metrics": _metrics(row),
            "files": [report["name"] for report in said.get("reports", ())],
            "added": f"{row['created_at']} by {row['created_by']}",
        }
    )


def _metrics(row: Row) -> list[str]:
    said = row["evaluation"]
    if said["family"] == "drift":
        return list(said["distributions"])
    told = [f"{one['name']} {one['value']:.6g}" for one in said.get("metrics", ())]
    amounts = ("memory_bytes", "requests_per_s", "output_tokens_per_s")
    told += [f"{name} {said[name]:.6g}" for name in amounts if name in said]
    times = ("latency_s", "first_token_s", "inter_token_s")
    return told + [f"{name} p50 {said[name]['p50']:.6g}" for name in times if name in said]


def _pairs(said: Row) -> list[str]:
    return [f"{key}={value}" for key, value in said.items()]
