"""`graftwork completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def add_to(app: typer.Typer) -> None:
    app.command()(completion)


def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a shell's completion script; `source <(graftwork completion bash)` turns it on."""
    from typer._completion_shared import get_completion_script

    print(get_completion_script(prog_name="graftwork", complete_var="_GRAFTWORK_COMPLETE", shell=shell.value))
