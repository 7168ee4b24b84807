"""`graftwork serve`: the server in the foreground."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from graftwork.cli.base import Base
from graftwork.cli.context import Context, OutputFormat, context_of
from graftwork.cli.verb import add_verb


def add_to(app: typer.Typer) -> None:
    add_verb(app, serve, local=True)


def serve(
    ctx: typer.Context,
    base: Base = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default 127.0.0.1, or GRAFTWORK_HOST.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 takes a free one; default 8080, or GRAFTWORK_PORT.")
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            help="Folder of database, artifacts and cache; default the user's data folder, or GRAFTWORK_HOME."
        ),
    ] = None,
    base_name: Annotated[
        str | None, typer.Option(help="Name the base answers to; default its own, or GRAFTWORK_BASE_NAME.")
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help="auto, float32 or bfloat16; default auto, or GRAFTWORK_DTYPE.")
    ] = None,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            help="Same bits in an answer whatever is computed beside it; default False, or GRAFTWORK_DETERMINISTIC."
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="Compute threads; default 0, one per physical core, or GRAFTWORK_THREADS."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(metavar="REF", help="Adapter to load before ready; repeatable; default none, or GRAFTWORK_PIN."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="The server's certificate in PEM; default none, or GRAFTWORK_TLS_CERT.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(help="The certificate's private key in PEM; default none, or GRAFTWORK_TLS_KEY.")
    ] = None,
    behind_proxy: Annotated[
        bool | None,
        typer.Option(help="A proxy in front takes care of TLS; default False, or GRAFTWORK_BEHIND_PROXY."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error; default info, or GRAFTWORK_LOG_LEVEL.")
    ] = None,
) -> None:
    """Serve the base and every registered adapter over HTTP, OpenAI-compatible.

    Prints the server's URL on stdout when it accepts connections; GET /ready tells when the base is loaded.
    """
    context = context_of(ctx)
    settings = context.settings(
        base=base,
        host=host,
        port=port,
        home=home,
        base_name=base_name,
        dtype=dtype,
        deterministic=deterministic,
        threads=threads,
        pin=tuple(pin) if pin else None,
        tls_cert=tls_cert,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        log_level=log_level,
    )
    logging.basicConfig(
        level=settings.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("uvicorn.error").addFilter(_named_uvicorn)
    from graftwork.gateway.server import serve as run_server

    run_server(settings, lambda url: _announce(context, url))


def _named_uvicorn(record: logging.LogRecord) -> bool:
    """uvicorn calls its main logger "uvicorn.error", whatever it says."""
    record.name = "uvicorn"
    return True


def _announce(context: Context, url: str) -> None:
    print(json.dumps({"url": url}) if context.output is OutputFormat.JSON else url, flush=True)
