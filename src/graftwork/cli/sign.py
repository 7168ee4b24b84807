"""sign: vouches for a version's files with a key of your own, which stays where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graftwork.cli.context import context_of
from graftwork.cli.output import print_facts, write
from graftwork.cli.registry import Reference
from graftwork.cli.verb import add_verb
from graftwork.cli.yaml_file import naming


def add_to(app: typer.Typer) -> None:
    add_verb(app, sign)


def sign(
    ctx: typer.Context,
    reference: Reference,
    key: Annotated[
        Path, typer.Option(metavar="PEM", help="Your private key (Ed25519, P-256, P-384 or P-521); it is not sent.")
    ],
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Sign only if the version has exactly the files of DIR.")
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Record this signature, made by model-signing; --key is the public key then."
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the signature to FILE.")] = None,
) -> None:
    """Sign a version; the signature is checked and recorded, and everybody with the public key can verify it."""
    context, pem = context_of(ctx), key.read_bytes()
    with context.client() as client, naming(key, only=("key",)), naming(bundle, only=("bundle",)):
        if bundle is not None:
            made = client.signatures.add(reference, bundle.read_bytes(), pem)
        else:
            made = client.signatures.sign(reference, pem, folder=folder)
        if save is not None:
            save.write_bytes(client.signatures.bundle(reference, made["number"]))
    write(made, context.output, lambda: _print(made))


def _print(made: Any) -> None:
    shown = ("number", "fingerprint", "algorithm", "bundle")
    facts = {name: made[name] for name in shown}
    print_facts(facts | {"created": f"{made['created_at']} by {made['created_by']}"})
