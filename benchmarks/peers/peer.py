"""Peer: what an engine has to offer to be compared with ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from load import Load, Measured


@dataclass(frozen=True)
class Cell:
    """One place of the table: `concurrency` clients that draw from `adapters` adapters; 0 is the plain base."""

    name: str
    concurrency: int
    adapters: int


@dataclass(frozen=True)
class Workload:
    """What every engine serves: the same base (a Hugging Face folder) and the same PEFT folders, by name."""

    base_name: str
    base: Path
    adapters: Mapping[str, Path]
    #: For files that a peer needs in a form of its own.
    scratch: Path

    def names(self, cell: Cell) -> list[str]:
        """The models that a cell's requests draw from."""
        return list(self.adapters)[: cell.adapters] or [self.base_name]


class Target(Protocol):
    """An engine that runs."""

    @property
    def pid(self) -> int:
        """Of its process, which has all others of the engine below it."""

    def measure(self, load: Load, names: Sequence[str], seed: int) -> Measured:
        """Run one round; requests and prompts follow from `seed` alone, so every engine gets the same."""

    def greedy(self, name: str, prompt: Sequence[int], count: int) -> str:
        """The text of the `count` most likely tokens after `prompt`, one after the other.

        Raises:
            RuntimeError: the engine did not answer.
        """


class Peer(Protocol):
    """An engine that can be installed and started."""

    name: str

    def install(self) -> None:
        """Bring it into its own environment, unless it is there.

        Raises:
            RuntimeError: with the end of the installer's output.
        """

    def versions(self) -> dict[str, str]:
        """Versions of the packages that matter for its speed."""

    def serve(self, work: Workload, cell: Cell) -> AbstractContextManager[Target]:
        """Start it with the settings that are best for `cell`, adapters loaded; stop it at the end.

        Raises:
            RuntimeError: it did not start, with the end of its log.
        """
