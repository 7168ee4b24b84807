"""The verbs of what a version may do: stage, approve, reject, deprecate, policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import OutputFormat, context_of
from graftwork.cli.output import print_facts, write
from graftwork.cli.registry import Reason, Reference, print_version
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming, read_mapping
from graftwork.errors import InvalidRequest

stage_app = typer.Typer(no_args_is_help=True, help="Say how far a version is approved.")
policy_app = typer.Typer(no_args_is_help=True, help="Demand something of versions.")
Adapter = Annotated[str | None, typer.Argument(metavar="[NAME]", help="This adapter's; without it, the tenant's.")]


def add_to(app: typer.Typer) -> None:
    add_verb(stage_app, stage_set, "set")
    app.add_typer(stage_app, name="stage")
    for verb in (approve, reject, deprecate):
        add_verb(app, verb)
    add_verb(policy_app, policy_show, "show")
    add_verb(policy_app, policy_set, "set")
    add_verb(policy_app, policy_rm, "rm")
    app.add_typer(policy_app, name="policy")


def stage_set(
    ctx: typer.Context,
    reference: Reference,
    stage: Annotated[str, typer.Argument(metavar="STAGE", help="development, staging, production or archived.")],
    expected: Annotated[
        str | None, typer.Option("--expect", metavar="STAGE", help="Only if it is in this stage now.")
    ] = None,
    reason: Reason = None,
) -> None:
    """Put a version into a stage; into production it is promoted."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.lifecycle.set_stage(reference, stage, expected=expected, reason=reason)
    write(version, context.output, lambda: print_version(version))


def approve(ctx: typer.Context, reference: Reference, reason: Reason = None) -> None:
    """Approve a version, as far as the policy asks you."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.lifecycle.approve(reference, reason=reason)
    write(version, context.output, lambda: print_version(version))


def reject(ctx: typer.Context, reference: Reference, reason: Reason = None) -> None:
    """Reject a version; where the policy demands approval, it does not serve any more."""
    context = context_of(ctx)
    with context.client() as client:
        version = client.lifecycle.reject(reference, reason=reason)
    write(version, context.output, lambda: print_version(version))


def deprecate(
    ctx: typer.Context,
    reference: Reference,
    message: Annotated[str | None, typer.Option(help="What to use instead, and why.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it is meant to go, such as 2027-03-31T00:00:00Z.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the deprecation back.")] = False,
) -> None:
    """Have every answer of a version say that it should no longer be used; it is served as before."""
    if undo == (message is not None):
        raise InvalidRequest("Give --message TEXT, or --undo.", field="message")
    context = context_of(ctx)
    with context.client() as client:
        if message is None:
            version = client.lifecycle.undeprecate(reference)
        else:
            version = client.lifecycle.deprecate(reference, message, until=until)
    write(version, context.output, lambda: print_version(version))


def policy_show(ctx: typer.Context, name: Adapter = None) -> None:
    """Show the policy that holds for an adapter, or for all that have none of their own."""
    context = context_of(ctx)
    with context.client() as client:
        document = client.lifecycle.policy(name)
    _write_document(document, context.output)


def policy_set(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy document, YAML or JSON.")],
    reason: Reason = None,
) -> None:
    """Set the policy of the adapter that the document's metadata names, or of the tenant."""
    context = context_of(ctx)
    document = read_mapping(file, field="policy")
    with context.client() as client, naming(file, unless=("reason",)):
        document = client.lifecycle.set_policy(document, reason=reason)
    _write_document(document, context.output)


def policy_rm(ctx: typer.Context, name: Adapter = None, reason: Reason = None) -> None:
    """Take a policy away: an adapter's own, so that the tenant's holds again, or the tenant's."""
    context = context_of(ctx)
    with context.client() as client:
        client.lifecycle.remove_policy(name, reason=reason)
    removed = {"name": name, "removed": True}
    write(removed, context.output, lambda: print_facts(removed))


def _write_document(document: dict[str, Any], output: OutputFormat) -> None:
    """A document is for people what it is in a file."""
    write(document, OutputFormat.YAML if output is OutputFormat.TABLE else output, lambda: None)
