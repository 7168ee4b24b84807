"""Runs the marked blocks of a page, in order, and compares what they print with what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from docs.pages import ROOT, Block, blocks_of

DOCUMENTED_URL = "http://127.0.0.1:8080"
DOCUMENTED_HOME = "~/.local/share/graftwork"
TIMEOUT_S = 120
#: Of the checkout, where `mktemp` makes the folders that pages write into.
TEMPORARY = ".tmp"
_VARYING = (
    (re.compile(r"sha256:[0-9a-f…]+"), "sha256:…"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"(?<=[\"-])[0-9a-f]{32}"), "ID"),
    (re.compile(r'"created": ?\d+'), '"created": N'),
)


@dataclass(frozen=True)
class Place:
    """Where blocks run: a server, and a folder with the examples in it."""

    url: str
    folder: Path
    environment: Mapping[str, str]

    def as_documented(self, printed: str) -> str:
        """What was printed, with the address and the folders that a reader would have."""
        home, cache = self.environment["GRAFTWORK_HOME"], self.environment["GRAFTWORK_CACHE_DIR"]
        said = ((self.url, DOCUMENTED_URL), (cache, f"{DOCUMENTED_HOME}/cache"), (home, DOCUMENTED_HOME))
        for ours, theirs in said:
            printed = printed.replace(ours, theirs)
        return printed


@dataclass(frozen=True)
class Ran:
    """A block, what it printed, and the output the page shows for it, if it is to be compared."""

    block: Block
    code: int
    printed: str
    promised: str | None


def place_in(folder: Path, url: str, *, home: Path, cache: Path) -> Place:
    """A folder that looks like a checkout to the commands of the pages."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / TEMPORARY).mkdir()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GRAFTWORK_")}
    environment |= {"GRAFTWORK_HOME": str(home), "GRAFTWORK_CACHE_DIR": str(cache)}
    environment.setdefault("OMP_WAIT_POLICY", "passive")  # a server and an engine share the cores
    environment["TMPDIR"] = str(folder / TEMPORARY)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    return Place(url, folder, environment)


def run_page(page: str, place: Place) -> Iterator[Ran]:
    """Run the blocks marked `run`; where a shell block went and what it exports holds for those after it."""
    state = place.folder / TEMPORARY / page.replace("/", "-")
    state.write_text("")
    blocks = blocks_of(page)
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if not block.runs:
            continue
        done = _run(block, state, place)
        promised = after.text if after is not None and (after.language, after.flags) == ("text", ("output",)) else None
        yield Ran(block, done.returncode, place.as_documented(done.stdout), promised)


def _run(block: Block, state: Path, place: Place) -> subprocess.CompletedProcess[str]:
    python = f"exec {shlex.quote(sys.executable)} -c {shlex.quote(block.text)}"
    lines = (
        f"_state={shlex.quote(str(state))}",
        '. "$_state"',
        """trap '{ export -p; echo "cd ${PWD@Q}"; } > "$_state"' EXIT""",
        (block.text if block.language == "sh" else python).replace(DOCUMENTED_URL, place.url),
    )
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=place.folder,
        env=dict(place.environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )


def says(promised: str, printed: str) -> bool:
    """Whether a page's output is what was printed; a line `…` stands for any lines."""
    lines = [r"(?:.*\n)*" if line == "…" else re.escape(line) + r"\n" for line in _steady(promised).splitlines()]
    return re.fullmatch("".join(lines), _steady(printed).rstrip("\n") + "\n") is not None


def _steady(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text
