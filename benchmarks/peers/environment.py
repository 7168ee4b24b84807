"""Environment: a virtual environment of a peer's own, made on first use and found again later."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: Variables that our own environment may set for its own libraries, and that would bend a peer's speed.
_OURS_ALONE = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONPATH")
_LOG_LINES = 15


@dataclass(frozen=True)
class Environment:
    """`folder` with a venv in which each of `steps` (arguments of `python`) was run once, in order.

    The recipe is written down when all steps have passed, so that an aborted installation, or another recipe, starts
    over.
    """

    folder: Path
    steps: tuple[tuple[str, ...], ...]
    build_variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self) -> None:
        """Make the environment unless it is there.

        Raises:
            RuntimeError: a step failed; the whole output is in `install.log` in the folder.
        """
        recipe = "\n".join(" ".join(step) for step in self.steps)
        done = self.folder / "installed.txt"
        if done.is_file() and done.read_text() == recipe:
            return
        print(f"installing into {self.folder} …", file=sys.stderr, flush=True)
        venv.create(self.folder, with_pip=True, clear=True)
        for step in self.steps:
            self._run(step)
        done.write_text(recipe)

    def version(self, package: str) -> str:
        """The installed version of `package`."""
        ask = f"from importlib.metadata import version; print(version({package!r}))"
        return subprocess.run([self.python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()

    def _run(self, step: Sequence[str]) -> None:
        log = self.folder / "install.log"
        with log.open("a") as output:
            ended = subprocess.run(
                [self.python, *step], stdout=output, stderr=output, env=peer_variables() | dict(self.build_variables)
            )
        if ended.returncode:
            raise RuntimeError(f"`python {' '.join(step)}` failed in {self.folder}:\n{tail(log)}")


def peer_variables() -> dict[str, str]:
    """The variables that a peer's processes start with: this process's, without those meant for our own libraries."""
    return {key: value for key, value in os.environ.items() if key not in _OURS_ALONE}


def tail(log: Path) -> str:
    """The end of a log file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
