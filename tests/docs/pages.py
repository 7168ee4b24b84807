"""Pages: the Markdown files of the project, their links, tables and code blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, its text and where it is."""

    page: str
    line: int
    language: str
    flags: tuple[str, ...]
    text: str

    @property
    def runs(self) -> bool:
        return "run" in self.flags

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every Markdown page of ours."""
    folders = [ROOT, ROOT / "docs", ROOT / "examples", ROOT / "benchmarks", ROOT / "tests"]
    found = [page for folder in folders for page in folder.glob("*.md")]
    found += [page for page in (ROOT / "docs").rglob("*.md") if page.parent != ROOT / "docs"]
    return sorted(found)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = text_of(page)
    made = []
    for match in _FENCE.finditer(text):
        language, *flags = match["info"].split() or [""]
        made.append(Block(page, text.count("\n", 0, match.start()) + 1, language, tuple(flags), match["text"]))
    return made


def links_of(page: str) -> Iterator[str]:
    """Where the links of a page lead, those inside code apart."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text_of(page)))
    for match in _LINK.finditer(prose):
        yield match["target"]


def rows_of(page: str) -> list[list[str]]:
    """The cells of every row of the tables of a page, headings included, rules apart."""
    lines = [line for line in text_of(page).splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if not all(set(cell) <= set("-:") for cell in row)]
