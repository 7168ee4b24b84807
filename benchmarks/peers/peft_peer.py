"""PeftPeer: transformers and PEFT, which have no server, driven in a process of their own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from load import Load, Measured, asks
from peers.environment import Environment, peer_variables, tail
from peers.peer import Cell, Workload

Mode = Literal["mixed", "sequential"]


class PeftPeer:
    """PEFT, with the rows of a batch either mixed or sorted by adapter."""

    def __init__(self, envs: Path, mode: Mode) -> None:
        self.name = "peft" if mode == "mixed" else f"peft_{mode}"
        self.mode: Mode = mode
        self.environment = Environment(
            envs / "peft", (("-m", "pip", "install", "torch==2.13.0", "transformers==5.24.0", "peft==0.21.2"),)
        )

    def install(self) -> None:
        self.environment.install()

    def versions(self) -> dict[str, str]:
        return {package: self.environment.version(package) for package in ("peft", "transformers", "torch")}

    @contextmanager
    def serve(self, work: Workload, cell: Cell) -> Iterator[DriverTarget]:
        names = work.names(cell) if cell.adapters else []
        command = [self.environment.python, Path(__file__).with_name("peft_driver.py"), work.base]
        log = work.scratch / f"{self.name}-{cell.name}.log"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                [*map(str, command), *(f"{name}={work.adapters[name]}" for name in names)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=peer_variables() | {"HF_HUB_OFFLINE": "1"},
            ) as process,
        ):
            target = DriverTarget(process, log, self.mode)
            try:
                target.ask({"do": "ready"})
                yield target
            finally:
                process.terminate()


@dataclass(frozen=True)
class DriverTarget:
    """The driver's process, which reads no further work while it works."""

    process: subprocess.Popen[str]
    log: Path
    mode: Mode

    @property
    def pid(self) -> int:
        return self.process.pid

    def measure(self, load: Load, names: Sequence[str], seed: int) -> Measured:
        requests = [(ask.model, ask.prompt) for ask in asks(load, names, seed)]
        work = {"mode": self.mode, "rows": load.concurrency, "asks": requests, "output_tokens": load.output_tokens}
        return Measured(**self.ask({"do": "run", **work}))

    def greedy(self, name: str, prompt: Sequence[int], count: int) -> str:
        return str(self.ask({"do": "greedy", "name": name, "prompt": list(prompt), "count": count}))

    def ask(self, work: dict[str, Any]) -> Any:
        """Have the driver do one thing.

        Raises:
            RuntimeError: it ended, with the end of its log.
        """
        assert self.process.stdin is not None and self.process.stdout is not None, "both were opened as pipes"
        try:
            self.process.stdin.write(json.dumps(work) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; what it said is in its log
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"PEFT's process ended. The end of {self.log}:\n{tail(self.log)}")
        return json.loads(answer)
