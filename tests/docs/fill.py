"""Puts what the blocks of pages print into the pages: `python tests/docs/fill.py README.md docs/quickstart.md …`

Only blocks that are followed by a `text` block are filled; one that begins with `…` is left as it is.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docs.pages import ROOT, Block
from docs.running import Place, place_in, run_page
from graftwork.cli.demo_server import running_server
from graftwork.client import Client

_SHOWN = re.compile(r"\n```text(?P<flags>[^\n]*)\n(?!…)(?:.*?\n)?```\n", re.DOTALL)


def fill(page: str, place: Place) -> None:
    path = ROOT / page
    for ran in run_page(page, place):
        assert (ran.code != 0) == ("fails" in ran.block.flags), f"{ran.block} exits with {ran.code}:\n{ran.printed}"
        path.write_text(with_output(path.read_text(encoding="utf-8"), ran.block, ran.printed), encoding="utf-8")


def with_output(text: str, block: Block, printed: str) -> str:
    """The page with the output of one block exchanged, where it shows one."""
    end = text.index(f"\n{block.text}```\n") + len(block.text) + 5
    shown = _SHOWN.match(text, end)
    if shown is None:
        return text
    output = printed.rstrip("\n")
    return f"{text[:end]}\n```text{shown['flags']}\n{output}\n```\n{text[shown.end() :]}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        home, cache = root / "home", Path(os.environ.get("GRAFTWORK_CACHE_DIR", root / "cache"))
        home.mkdir()
        with running_server(home, cache) as server:
            with Client(server.url) as client:
                while client.ready():
                    server.check()
                    time.sleep(0.05)
            for number, page in enumerate(sys.argv[1:]):
                checkout = root / str(number)
                checkout.mkdir()
                fill(page, place_in(checkout, server.url, home=home, cache=cache))


if __name__ == "__main__":
    main()
