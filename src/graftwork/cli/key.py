"""`graftwork key`: API keys: made, listed, replaced, revoked."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import Context, context_of
from graftwork.cli.output import Columns, print_table, write
from graftwork.cli.tenancy import DefaultRoute, Tenant
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

key_app = typer.Typer(no_args_is_help=True, help="API keys; the first one made closes a server to everyone without.")

_KEY: Columns = {
    "id": lambda row: row["id"],
    "name": lambda row: row["name"],
    "user": lambda row: row["user"],
    "role": lambda row: row["role"],
    "scopes": lambda row: row["scopes"],
    "default": lambda row: row["default_route"],
    "state": lambda row: row["state"],
    "expires": lambda row: row["expires_at"],
}


def add_to(app: typer.Typer) -> None:
    add_verb(key_app, create)
    add_verb(key_app, set_key, "set")
    add_verb(key_app, list_keys, "list")
    add_verb(key_app, rotate)
    add_verb(key_app, revoke)
    app.add_typer(key_app, name="key")


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Option(help="What people call it.")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="A key that may do everything in its tenant.")] = False,
    role: Annotated[str, typer.Option(help="viewer, deployer, approver or admin.")] = "viewer",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="inference, read, texts or manage; repeatable; default inference and read."),
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose key it is: it can do no more than their role.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Until when, as 2026-01-31T09:30:00Z.")] = None,
    default_route: DefaultRoute = None,
    tenant: Tenant = None,
) -> None:
    """Make a key and show it, this once."""
    context = context_of(ctx)
    wanted: dict[str, Any] = {"name": name, "role": role, "user": user, "expires_at": expires}
    wanted |= {"default_route": default_route} if default_route else {}
    wanted |= {"scopes": scope} if scope else {}
    if admin:
        wanted |= {"role": "admin", "scopes": ["inference", "read", "texts", "manage"]}
    with context.client() as client:
        _show(context, client.keys.create(tenant=tenant, **wanted))


def set_key(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ID")],
    default_route: DefaultRoute = None,
    tenant: Tenant = None,
) -> None:
    """Change what a key means where a request names nothing."""
    context = context_of(ctx)
    if default_route is None:
        raise InvalidRequest("Say --default-route NAME, or with an empty one that it has none.", field="settings")
    with context.client() as client:
        changed = client.keys.change(key, default_route=default_route or None, tenant=tenant)
    write(changed, context.output, lambda: print_table([changed], _KEY, empty=""))


def list_keys(ctx: typer.Context, tenant: Tenant = None) -> None:
    """List keys, without their secrets."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.keys.list(tenant=tenant)
    write(found, context.output, lambda: print_table(found, _KEY, empty="No keys."))


def rotate(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ID")],
    overlap: Annotated[int, typer.Option(metavar="SECONDS", help="How long the old one still holds.", min=0)] = 86400,
    tenant: Tenant = None,
) -> None:
    """Make a key in place of another, and show it, this once."""
    context = context_of(ctx)
    with context.client() as client:
        _show(context, client.keys.rotate(key, overlap_s=overlap, tenant=tenant))


def revoke(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ID")],
    reason: Annotated[str | None, typer.Option(help="Why; the log keeps it.")] = None,
    tenant: Tenant = None,
) -> None:
    """End a key at once."""
    context = context_of(ctx)
    with context.client() as client:
        client.keys.revoke(key, reason=reason, tenant=tenant)
    write({"revoked": key}, context.output, lambda: print(f"The key {key} is revoked."))


def _show(context: Context, made: dict[str, Any]) -> None:
    """The key alone on stdout, so that a script can take it."""
    write(made, context.output, lambda: print(made["key"]))
