"""The verbs of who may do what: tenant, user, grant, whoami; keys are in `key.py`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import Columns, print_facts, print_table, write
from graftwork.cli.verb import add_verb
from graftwork.errors import InvalidRequest

tenant_app = typer.Typer(no_args_is_help=True, help="Organisations that share a server: what they may use of it.")
user_app = typer.Typer(no_args_is_help=True, help="People of a tenant, and what each may do.")
grant_app = typer.Typer(no_args_is_help=True, help="What other tenants may do with your adapters.")

Tenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Whose; default your own. For the server's administrators."),
]
DefaultRoute = Annotated[
    str | None,
    typer.Option("--default-route", metavar="NAME", help="What a request means that names nothing; empty: none."),
]
_QUOTAS = ("requests_per_minute", "tokens_per_minute", "concurrent", "adapters", "bytes")
_TENANT: Columns = {
    "name": lambda row: row["name"],
    "weight": lambda row: f"{row['weight']:g}",
    "region": lambda row: row["home_region"],
    "default": lambda row: row["default_route"],
    **{what: (lambda row, what=what: row["quotas"][what]) for what in _QUOTAS},  # type: ignore[misc]
}
_USER: Columns = {
    "name": lambda row: row["name"],
    "role": lambda row: row["role"],
    "display name": lambda row: row["display_name"],
}
_GRANT: Columns = {
    "id": lambda row: row["id"],
    "adapters": lambda row: f"{row['owner']}/{row['pattern']}",
    "to": lambda row: row["grantee"],
    "verbs": lambda row: row["verbs"],
}


def add_to(app: typer.Typer) -> None:
    add_verb(tenant_app, create_tenant, "create")
    add_verb(tenant_app, set_tenant, "set")
    add_verb(tenant_app, list_tenants, "list")
    app.add_typer(tenant_app, name="tenant")
    add_verb(user_app, set_user, "set")
    add_verb(user_app, remove_user, "rm")
    add_verb(user_app, list_users, "list")
    app.add_typer(user_app, name="user")
    add_verb(grant_app, create_grant, "create")
    add_verb(grant_app, remove_grant, "rm")
    add_verb(grant_app, list_grants, "list")
    app.add_typer(grant_app, name="grant")
    add_verb(app, whoami)


def whoami(ctx: typer.Context) -> None:
    """Show whom the server takes you for, and what you may do."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.whoami()
    write(found, context.output, lambda: print_facts(found))


Weight = Annotated[float | None, typer.Option(help="Part of the engine beside other tenants; 1 where never set.")]
Display = Annotated[str | None, typer.Option("--display-name", help="As people call it.")]
Region = Annotated[str | None, typer.Option("--home-region", help="Where it is at home.")]
Quota = Annotated[
    list[str] | None,
    typer.Option("--quota", metavar="WHAT=N", help=f"Of {', '.join(_QUOTAS)}; N none: no limit. Repeatable."),
]


def create_tenant(
    ctx: typer.Context,
    name: str,
    weight: Weight = None,
    display_name: Display = None,
    home_region: Region = None,
    quota: Quota = None,
    default_route: DefaultRoute = None,
) -> None:
    """Set up a tenant."""
    context = context_of(ctx)
    with context.client() as client:
        made = client.tenants.create(name, **_settings(weight, display_name, home_region, quota, default_route))
    write(made, context.output, lambda: print_table([made], _TENANT, empty=""))


def set_tenant(
    ctx: typer.Context,
    name: str,
    weight: Weight = None,
    display_name: Display = None,
    home_region: Region = None,
    quota: Quota = None,
    default_route: DefaultRoute = None,
) -> None:
    """Change what is set for a tenant; what is not given stays."""
    context = context_of(ctx)
    with context.client() as client:
        changed = client.tenants.change(name, **_settings(weight, display_name, home_region, quota, default_route))
    write(changed, context.output, lambda: print_table([changed], _TENANT, empty=""))


def list_tenants(ctx: typer.Context) -> None:
    """List your tenant; all of them for the server's administrators."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.tenants.list()
    write(found, context.output, lambda: print_table(found, _TENANT, empty="No tenants."))


def set_user(
    ctx: typer.Context,
    name: str,
    role: Annotated[str, typer.Option(help="viewer, deployer, approver or admin.")] = "viewer",
    display_name: Annotated[str, typer.Option("--display-name", help="As people call them.")] = "",
    tenant: Tenant = None,
) -> None:
    """Enter a user, or change what they may do."""
    context = context_of(ctx)
    with context.client() as client:
        user = client.users.put(name, role=role, display_name=display_name, tenant=tenant)
    write(user, context.output, lambda: print_table([user], _USER, empty=""))


def remove_user(ctx: typer.Context, name: str, tenant: Tenant = None) -> None:
    """Strike a user off; their keys are worth nothing from then on."""
    context = context_of(ctx)
    with context.client() as client:
        client.users.remove(name, tenant=tenant)
    write({"removed": name}, context.output, lambda: print(f"{name} is struck off."))


def list_users(ctx: typer.Context, tenant: Tenant = None) -> None:
    """List users and what they may do."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.users.list(tenant=tenant)
    write(found, context.output, lambda: print_table(found, _USER, empty="No users."))


def create_grant(
    ctx: typer.Context,
    to: Annotated[str, typer.Argument(metavar="TENANT", help="Who is given it.")],
    pattern: Annotated[str, typer.Argument(help="Name of adapters of yours; one * stands for any text.")],
    verb: Annotated[list[str] | None, typer.Option("--verb", help="call, see or manage; repeatable.")] = None,
    tenant: Tenant = None,
) -> None:
    """Let another tenant call your adapters (as `you/name`), see them, or move their pointers."""
    context = context_of(ctx)
    with context.client() as client:
        grant = client.grants.create(to, pattern, *(verb or ()), tenant=tenant)
    write(grant, context.output, lambda: print_table([grant], _GRANT, empty=""))


def remove_grant(
    ctx: typer.Context, grant: Annotated[str, typer.Argument(metavar="ID")], tenant: Tenant = None
) -> None:
    """Take a grant back."""
    context = context_of(ctx)
    with context.client() as client:
        client.grants.remove(grant, tenant=tenant)
    write({"removed": grant}, context.output, lambda: print(f"The grant {grant} is taken back."))


def list_grants(
    ctx: typer.Context,
    received: Annotated[bool, typer.Option("--received", help="What others gave you.")] = False,
    tenant: Tenant = None,
) -> None:
    """List what you gave others; with --received what they gave you."""
    context = context_of(ctx)
    with context.client() as client:
        found = client.grants.list(received=received, tenant=tenant)
    write(found, context.output, lambda: print_table(found, _GRANT, empty="No grants."))


def _settings(
    weight: float | None, display: str | None, region: str | None, quotas: list[str] | None, default: str | None
) -> dict[str, Any]:
    given = {"weight": weight, "display_name": display, "home_region": region, "default_route": default}
    settings: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    return settings | ({"quotas": dict(map(_quota, quotas))} if quotas else {})


def _quota(text: str) -> tuple[str, int | None]:
    what, _, number = text.partition("=")
    if what in _QUOTAS and (number == "none" or (number.isascii() and number.isdigit())):
        return what, None if number == "none" else int(number)
    raise InvalidRequest(f"--quota {text!a} is not WHAT=N with WHAT of {', '.join(_QUOTAS)}.", field="settings")
