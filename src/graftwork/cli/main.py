"""The `graftwork` command: its global options, its verbs, and how its errors are told.

Modules of this folder import what is heavy inside their commands, so that `--help` answers at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from graftwork.cli import (
    analysis,
    ask,
    audit,
    backup,
    base,
    compare,
    completion,
    declared,
    demo,
    document,
    evaluation,
    exporting,
    inspect,
    key,
    lifecycle,
    lineage,
    moving,
    prediction,
    promotion,
    registry,
    residency,
    retention,
    rollout,
    route,
    search,
    serve,
    shadow,
    sign,
    task,
    tenancy,
    verify,
    webhook,
)
from graftwork.cli.context import Context, OutputFormat
from graftwork.errors import Forbidden, GraftworkError, Held, InvalidRequest, Refused, Unavailable

app = typer.Typer(
    name="graftwork",
    help="Serve one frozen base model with many small, versioned adapters, batched together.",
    epilog="Start with `graftwork demo`. Exit codes: 0 ok, 1 refused or failed, 2 wrong usage, 3 a plan has changes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

serve.add_to(app)
registry.add_to(app)
moving.add_to(app)
exporting.add_to(app)
declared.add_to(app)
lifecycle.add_to(app)
residency.add_to(app)
route.add_to(app)
evaluation.add_to(app)
compare.add_to(app)
analysis.add_to(app)
promotion.add_to(app)
lineage.add_to(app)
search.add_to(app)
retention.add_to(app)
rollout.add_to(app)
shadow.add_to(app)
webhook.add_to(app)
verify.add_to(app)
sign.add_to(app)
document.add_to(app)
ask.add_to(app)
task.add_to(app)
inspect.add_to(app)
base.add_to(app)
audit.add_to(app)
prediction.add_to(app)
backup.add_to(app)
tenancy.add_to(app)
key.add_to(app)
demo.add_to(app)
completion.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        from graftwork import __version__

        typer.echo(f"graftwork {__version__}")
        raise typer.Exit


@app.command("version")
def version() -> None:
    """Show the version: `graftwork --version` by the name that many try first."""
    _version(True)


@app.callback()
def options(
    ctx: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="GRAFTWORK_URL",
            metavar="URL",
            help="Server to speak to; without it the verbs work on GRAFTWORK_HOME in this process.",
        ),
    ] = None,
    output: Annotated[
        OutputFormat, typer.Option("--output", "-o", help="How results are written to stdout.")
    ] = OutputFormat.TABLE,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    ctx.obj = Context(url=url or None, output=output)


def run() -> None:
    """Run the command line; every error is one message on stderr and an exit code."""
    try:
        app()
    except GraftworkError as error:
        _tell(error)
        sys.exit(2 if isinstance(error, InvalidRequest) and error.field in _USAGE | _PLACES else 1)
    except BrokenPipeError:
        sys.exit(1)
    except UnicodeError as error:
        print(f"graftwork: this is not UTF-8 text: {error}", file=sys.stderr)
        sys.exit(2)
    except FileNotFoundError as error:
        print(f"graftwork: {_missing(Path(error.filename or '.'))}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        print(f"graftwork: the system refuses{where}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        _unexpected(error)
        sys.exit(1)


#: Fields of a wrong request that are words of the command line itself.
_USAGE = frozenset(
    {"settings", "url", "meta", "base", "message", "policy", "rollout", "route", "header", "expected_head"}
)
#: Settings that are read only when what they name is opened.
_PLACES = frozenset({"database_url", "artifacts_url", "artifacts_keyring"})


def _missing(path: Path) -> str:
    return f"There is no file {path}." if path.absolute().parent.is_dir() else f"There is no folder {path.parent}."


def _tell(error: GraftworkError) -> None:
    place = getattr(error, "field", None)
    if place in _PLACES:
        from graftwork.cli.wrong_setting import source_of

        print(f"graftwork: {source_of(place, {}, os.environ)}: {error.message}", file=sys.stderr)
    else:
        print(f"graftwork: {error.message}", file=sys.stderr)
    if isinstance(error, Unavailable) and error.retry_after_s > 1:  # less is said where nobody knows
        print(f"  Room is expected in {error.retry_after_s} s.", file=sys.stderr)
    if isinstance(error, Forbidden | Refused):
        for problem in error.problems:
            if problem not in error.message:
                print(f"  - {problem}", file=sys.stderr)
    if isinstance(error, Held):
        for holder in error.holders:
            if holder["message"] not in error.message:
                print(f"  - {holder['message']}", file=sys.stderr)


def _unexpected(error: Exception) -> None:
    import traceback

    if os.environ.get("GRAFTWORK_LOG_LEVEL") == "debug":
        traceback.print_exception(error)
    print(
        f"graftwork: something unexpected went wrong: {type(error).__name__}: {error}. "
        "Run again with GRAFTWORK_LOG_LEVEL=debug to see where, and please report it.",
        file=sys.stderr,
    )
