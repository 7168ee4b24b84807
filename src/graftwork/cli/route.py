"""The verbs of routes: those of any resource, and route explain."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import Row, print_facts, write
from graftwork.cli.resource import Name, ResourceVerbs
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

route_app = typer.Typer(no_args_is_help=True, help="Decide by rules which version answers under a name.")


def add_to(app: typer.Typer) -> None:
    _VERBS.add_to(route_app)
    add_verb(route_app, route_explain, "explain")
    app.add_typer(route_app, name="route")


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


def _known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


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


def _problems(route: Row) -> str | None:
    return "; ".join(one["message"] for one in route["status"]["conditions"] if one["status"] != "True") or None


def _rules(route: Row) -> int:
    return len(route["spec"]["rules"])


_VERBS = ResourceVerbs(
    "route",
    lambda client: client.routes,
    {"rules": _rules, "problems": _problems},
    lambda route: {"rules": _rules(route), "problems": _problems(route)},
)
