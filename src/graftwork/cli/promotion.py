"""The verbs of promotion policies: those of any resource, and promotion status."""

from __future__ import annotations

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, Row, print_table, write
from graftwork.cli.resource import Name, ResourceVerbs
from graftwork.cli.verb import add_verb

promotion_app = typer.Typer(no_args_is_help=True, help="Say which versions start a rollout by themselves, and when.")
_CANDIDATES: Columns = {
    "version": lambda row: row["version"],
    "route": lambda row: row["route"],
    "rollout": lambda row: row["rollout"],
    "waits for": lambda row: " ".join(row["waits_for"]) or "nothing",
}


def add_to(app: typer.Typer) -> None:
    _VERBS.add_to(promotion_app)
    add_verb(promotion_app, status)
    app.add_typer(promotion_app, name="promotion")


def status(ctx: typer.Context, name: Name) -> None:
    """Show the versions that a policy means now, and what each still waits for."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.promotions.candidates(name)
    write(found, context.output, lambda: print_table(found, _CANDIDATES, empty="No version is meant."))


def _means(policy: Row) -> str:
    spec = policy["spec"]
    when = spec["when"]
    return f"{spec['adapters']} {when['stage'] if 'stage' in when else '@' + when['alias']}"


_VERBS = ResourceVerbs(
    "promotion policy",
    lambda client: client.promotions,
    {"means": _means, "gate": lambda policy: policy["spec"].get("gate", {}).get("name")},
    lambda policy: {"means": _means(policy)},
)
