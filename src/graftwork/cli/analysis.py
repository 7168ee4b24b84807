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
from graftwork.errors import InvalidRequest

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
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="A value of an argument; repeatable.")
    ] = None,
) -> None:
    """Read a template, and judge evidence by it; exits with 1 unless all metrics pass."""
    context, template = context_of(ctx), read_mapping(file, field="file")
    shown = None if evidence is None else read_mapping(evidence, field="evidence")
    with context.client() as client, naming(file, unless=("evidence", "args")):
        found = client.analyses.check(template, shown, args=_arguments(arg or []))
    write(found, context.output, lambda: _print(found))
    if found["result"] not in (None, "pass"):
        raise typer.Exit(1)


def _arguments(given: list[str]) -> dict[str, str | float]:
    found: dict[str, str | float] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or name in found:
            wrong = "is given twice" if equals else "is not NAME=VALUE"
            raise InvalidRequest(f"--arg {text!a} {wrong}.", field="arg")
        found[name] = value
    return found


def _print(found: dict[str, Any]) -> None:
    print_table(found["metrics"], _METRICS, empty="Nothing was judged.")
    args = {"arguments": _given(found["args"])} if found["args"] else {}
    print_facts({"template": found["name"], **args, "result": found["result"] or "can be used"})


def _given(args: list[dict[str, str]]) -> str:
    """`floor=0.9, window` where an argument has no value."""
    return ", ".join(f"{one['name']}={one['value']}" if "value" in one else one["name"] for one in args)


def _metrics(template: Row) -> str:
    return ", ".join(metric["name"] for metric in template["spec"]["metrics"])


_VERBS = ResourceVerbs(
    "template",
    lambda client: client.analyses,
    {"metrics": _metrics},
    lambda template: {
        "metrics": _metrics(template),
        **({"arguments": _given(args)} if (args := template["spec"].get("args")) else {}),
    },
)
