"""The command line: `graftwork --help`."""

from __future__ import annotations


def main() -> None:
    """Entry point of the `graftwork` command."""
    from graftwork.cli.main import run

    run()
