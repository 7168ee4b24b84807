"""`graftwork webhook`: send events to a URL, signed, and see what became of them."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, print_facts, print_table, write
from graftwork.cli.registry import Reason
from graftwork.cli.verb import add_verb

webhook_app = typer.Typer(no_args_is_help=True, help="Send events to a URL, signed, and see what became of them.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook.")]


class Status(StrEnum):
    """What a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


_COLUMNS: Columns = {
    "webhook": lambda row: row["name"],
    "url": lambda row: row["url"],
    "events": lambda row: ", ".join(row["events"]),
    "subjects": lambda row: ", ".join(row["subjects"]) or "all",
}
_DELIVERIES: Columns = {
    "delivery": lambda row: row["id"],
    "kind": lambda row: row["kind"],
    "event": lambda row: row["position"],
    "status": lambda row: row["status"],
    "attempts": lambda row: row["attempts"],
    "last": lambda row: row["error"] or row["answered"],
    "next": lambda row: row["due_at"],
}


def add_to(app: typer.Typer) -> None:
    add_verb(webhook_app, webhook_set, "set")
    add_verb(webhook_app, webhook_list, "list")
    for verb in (show, rm, rotate, test, deliveries, retry):
        add_verb(webhook_app, verb)
    app.add_typer(webhook_app, name="webhook")


def webhook_set(
    ctx: typer.Context,
    name: Name,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The URL to send to, by https.")],
    event: Annotated[
        list[str], typer.Option("--event", metavar="KIND", help="Kinds of events: version.created, rollout.*, or *.")
    ],
    subject: Annotated[
        list[str] | None,
        typer.Option("--subject", metavar="SUBJECT", help="Whom they are about: adapters/NAME, adapters/PREFIX*."),
    ] = None,
    reason: Reason = None,
) -> None:
    """Send events there from now on; the secret of a new webhook is shown this once."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.set(name, target, event, subjects=subject or (), reason=reason)
    write(found, context.output, lambda: print_facts(_facts(found)))


def webhook_list(ctx: typer.Context) -> None:
    """List where events are sent."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.list()
    write(found, context.output, lambda: print_table(found, _COLUMNS, empty="No webhooks."))


def show(ctx: typer.Context, name: Name) -> None:
    """Show a webhook."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.show(name)
    write(found, context.output, lambda: print_facts(_facts(found)))


def rm(ctx: typer.Context, name: Name, reason: Reason = None) -> None:
    """Send nothing there any more, not even what is pending."""
    context = context_of(ctx)
    with context.client() as client:
        client.webhooks.remove(name, reason=reason)
    removed = {"name": name, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def rotate(
    ctx: typer.Context,
    name: Name,
    overlap_s: Annotated[
        int, typer.Option("--overlap", metavar="SECONDS", help="How long the secret before signs as well.")
    ] = 86_400,
    reason: Reason = None,
) -> None:
    """Make a new secret, and show it this once."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.rotate(name, overlap_s=overlap_s, reason=reason)
    write(found, context.output, lambda: print_facts(_facts(found)))


def test(
    ctx: typer.Context,
    name: Name,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long to wait for the first attempt.")
    ] = 15.0,
) -> None:
    """Send a delivery that tells of nothing, and show what came of it."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.test(name)
        until = time.monotonic() + wait_s
        while not found["attempts"] and time.monotonic() < until:
            time.sleep(min(0.25, wait_s))
            found = next((one for one in client.webhooks.deliveries(name) if one["id"] == found["id"]), found)
    facts = {title: value(found) for title, value in _DELIVERIES.items()}
    write(found, context.output, lambda: print_facts(facts))
    if found["status"] == "failed" or found["error"]:
        raise typer.Exit(1)


def deliveries(
    ctx: typer.Context,
    name: Name,
    status: Annotated[Status | None, typer.Option("--status", help="Only these.")] = None,
) -> None:
    """List what was sent or is to be sent, the newest first."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.webhooks.deliveries(name, status=status.value if status else None)
    write(found, context.output, lambda: print_table(found, _DELIVERIES, empty="No deliveries."))


def retry(
    ctx: typer.Context,
    name: Name,
    delivery: Annotated[str | None, typer.Argument(metavar="[DELIVERY]", help="One; without it, all.")] = None,
) -> None:
    """Try what failed again."""
    context = context_of(ctx)
    with context.client() as client:
        retried = {"retried": client.webhooks.retry(name, delivery)}
    write(retried, context.output, lambda: print_facts(retried))


def _facts(found: dict[str, Any]) -> dict[str, object]:
    facts = {title: value(found) for title, value in _COLUMNS.items()}
    until = {"previous secret until": found["previous_until"]} if found["previous_until"] else {}
    return {**facts, **until, **({"secret": found["secret"]} if "secret" in found else {})}
