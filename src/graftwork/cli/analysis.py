"""The verbs of analysis: those of any resource, and analysis check."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, Row, print_facts, print_table, write
from graftwork.cli.resource import ResourceVerbs
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping

analysis_app = typer.Typer(no_args_is_help=True, help="Keep and try the templates by which versions are judged.")
_METRICS: Columns = {
    "metric": lambda row: row["name"],
    "result": lambda row: row["result"],
    "reason": lambda row: row["reason"],
}


def add_to(app: typer.Typer) -> None:
    _VERBS.add_to(analysis_app)
    add_verb(analysis_app, check)
    app.add_typer(analysis_app, name="analysis")


def check(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A resource of kind AnalysisTemplate.")],
    evidence: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What to judge by it, as YAML or JSON; else it is only read.")
    ] = None,
) -> None:
    """Read a template, and judge evidence by it; exits with 1 unless all metrics pass."""
    context, template = context_of(ctx), read_mapping(file, field="file")
    shown = None if evidence is None else read_mapping(evidence, field="evidence")
    with context.client() as client, naming(file, unless=("evidence",)):
        found = client.analyses.check(template, shown)
    write(found, context.output, lambda: _print(found))
    if found["result"] not in (None, "pass"):
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    print_table(found["metrics"], _METRICS, empty="Nothing was judged.")
    print_facts({"template": found["name"], "result": found["result"] or "can be used"})


def _metrics(template: Row) -> str:
    return ", ".join(metric["name"] for metric in template["spec"]["metrics"])


_VERBS = ResourceVerbs(
    "template",
    lambda client: client.analyses,
    {"metrics": _metrics},
    lambda template: {"metrics": _metrics(template)},
)
