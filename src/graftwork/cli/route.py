"""The verbs of routes: route set, list, show, history, explain, rollback, rm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import Context, OutputFormat, context_of
from graftwork.cli.output import Row, print_facts, print_table, short_hex, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping
from graftwork.errors import InvalidRequest

route_app = typer.Typer(no_args_is_help=True, help="Decide by rules which version answers under a name.")
Name = Annotated[str, typer.Argument(metavar="ROUTE", help="The name of the route.")]
Expect = Annotated[
    str | None,
    typer.Option("--expect", metavar="DIGEST", help="Only if this revision is live: its digest, absent or present."),
]
Number = Annotated[int | None, typer.Option("--revision", metavar="N", min=1, help="This revision.")]


def add_to(app: typer.Typer) -> None:
    verbs: dict[str, Callable[..., None]] = {
        "set": route_set,
        "list": route_list,
        "show": route_show,
        "history": route_history,
    }
    verbs |= {"explain": route_explain, "rollback": route_rollback, "rm": route_rm}
    for name, verb in verbs.items():
        add_verb(route_app, verb, name)
    app.add_typer(route_app, name="route")


def route_set(
    ctx: typer.Context,
    file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="A route document, YAML or JSON.")],
    expect: Expect = None,
    reason: Reason = None,
) -> None:
    """Make a document the live revision of the route that it names."""
    context, document = context_of(ctx), read_mapping(file, field="route")
    with context.client() as client, naming(file, unless=("reason", "If-Match")):
        route = client.routes.set(document, expected=expect, reason=reason)
    _write_one(context, route)


def route_list(ctx: typer.Context) -> None:
    """List all routes; an adapter's own name that no route replaces is not among them."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.routes.list()
    columns = {
        "route": lambda row: row["metadata"]["name"],
        "revision": lambda row: row["status"]["revision"],
        "rules": lambda row: len(row["spec"]["rules"]),
        "problems": _problems,
        "by": lambda row: row["status"]["createdBy"],
        "since": lambda row: row["status"]["createdAt"],
        "digest": lambda row: short_hex(row["status"]["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No routes.", least="digest"))


def route_show(ctx: typer.Context, name: Name, revision: Number = None) -> None:
    """Show the live revision of a route, or another, as a document that `route set` takes."""
    context = context_of(ctx)
    with context.client() as client:
        document = client.routes.show(name, revision=revision)
    output = OutputFormat.YAML if context.output is OutputFormat.TABLE else context.output
    write(document, output, lambda: None)


def route_history(ctx: typer.Context, name: Name) -> None:
    """List all revisions that a route ever had, the newest first."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.routes.revisions(name)
    columns = {
        "revision": lambda row: row["status"]["revision"],
        "live": lambda row: "live" if row["status"]["live"] else None,
        "rules": lambda row: len(row["spec"]["rules"]),
        "reason": lambda row: row["status"]["reason"],
        "by": lambda row: row["status"]["createdBy"],
        "created": lambda row: row["status"]["createdAt"],
        "digest": lambda row: short_hex(row["status"]["digest"]),
    }
    write(found, context.output, lambda: print_table(found, columns, empty="No revisions.", least="digest"))


def route_explain(
    ctx: typer.Context,
    name: Name,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME: VALUE", help="A header of the request; repeatable.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Its task.")] = None,
    user: Annotated[str | None, typer.Option(help="Who asks.")] = None,
    key: Annotated[str | None, typer.Option(help="The public part of the API key.")] = None,
    session: Annotated[str | None, typer.Option(help="Its session.")] = None,
    locale: Annotated[str | None, typer.Option(help="Its languages, as in Accept-Language.")] = None,
    region: Annotated[str | None, typer.Option(help="Where it comes from.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help="When it comes, such as 2027-03-31T22:15:00Z.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As --output json.")] = False,
) -> None:
    """Say who would answer a request: which rule, why none before it, and which arm."""
    context = context_of(ctx)
    said = {"task": task, "user": user, "key": key, "session": session, "locale": locale, "region": region, "at": at}
    given = {field: value for field, value in said.items() if value is not None}
    with context.client() as client:
        told = client.routes.explain(name, headers=_headers(header or []), **given)
    write(told, OutputFormat.JSON if json else context.output, lambda: _print_explanation(told))


def route_rollback(
    ctx: typer.Context, name: Name, revision: Number = None, expect: Expect = None, reason: Reason = None
) -> None:
    """Make the revision live that was it before, or the one given."""
    context = context_of(ctx)
    with context.client() as client:
        route = client.routes.rollback(name, revision=revision, expected=expect, reason=reason)
    _write_one(context, route)


def route_rm(ctx: typer.Context, name: Name, expect: Expect = None, reason: Reason = None) -> None:
    """Take a route away; an adapter of its name is reached by it again."""
    context = context_of(ctx)
    with context.client() as client:
        client.routes.remove(name, expected=expect, reason=reason)
    removed = {"name": name, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def _write_one(context: Context, route: dict[str, Any]) -> None:
    status = route["status"]
    facts = {
        "route": route["metadata"]["name"],
        "revision": status["revision"],
        "digest": status["digest"],
        "rules": len(route["spec"]["rules"]),
        "problems": _problems(route),
    }
    write(route, context.output, lambda: print_facts(_known(facts)))


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


def _problems(route: Row) -> str | None:
    return "; ".join(one["message"] for one in route["status"]["conditions"] if one["status"] != "True") or None


def _headers(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise InvalidRequest(f"--header {text!a} is not NAME: VALUE.", field="header")
        found[name.strip()] = value.strip()
    return found


def _print_explanation(told: dict[str, Any]) -> None:
    refusal = told["refusal"]
    facts = {
        "route": told["route"],
        "revision": told["revision"],
        "rule": told["rule"],
        "refused": f"{refusal['status']}: {refusal['message']}" if refusal else None,
        "arm": told["arm"],
        "answers": told["model"],
        "error": told["error"],
        "digest": told["digest"],
        "key": told["key"],
        "point": f"{told['point']:.6f}" if told["point"] is not None else None,
    }
    print_facts(_known(facts))
    for rule in told["rules"]:
        why = [" and ".join(match["why"]) for match in rule["matches"] if match["why"]]
        said = rule["action"] if rule["fits"] else f"no: {'; or '.join(why)}"
        typer.echo(f"  {rule['rule']}: {said}")
    for arm in told["arms"]:
        typer.echo(f"  {arm['arm']} {arm['share']:.1%}: {arm['reference']} is {arm['model'] or 'no version'}")
