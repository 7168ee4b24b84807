"""Script: the options and the output that all benchmarks have in common."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from graftwork.process import THEIRS, WAITING
from load import Load
from shapes import SHAPES, write_shape

#: A machine is quiet when so much of it is free.
QUIET = 0.9


def as_served() -> None:
    """Run the script anew with threads that wait as a server's do, unless the environment says how: torch is loaded."""
    told = dict(os.environ)
    if not any(name in told for name in THEIRS):
        os.execve(sys.executable, [sys.executable, *sys.argv], told | WAITING)


def parser(about: str | None, *, rounds: int = 0) -> argparse.ArgumentParser:
    """A parser with the options that every benchmark takes, and those of a load where there are `rounds` of it."""
    as_served()
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    base = made.add_mutually_exclusive_group()
    base.add_argument("--base", default="smollm2-135m", help="what is served")
    base.add_argument("--shape", choices=sorted(SHAPES), help="serve random weights of a known model's shape instead")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help="rounds of each kind, run in turn")
        made.add_argument("--prompt-tokens", type=int, default=128, help="of every request")
        made.add_argument("--output-tokens", type=int, default=64, help="of every answer")
    return made


@contextmanager
def base_of(options: argparse.Namespace) -> Iterator[str]:
    """The base to serve, as `Settings.base` wants it; a shape's folder is gone at the end."""
    if options.shape is None:
        yield options.base
        return
    with TemporaryDirectory(prefix="graftwork-bench-") as folder:
        yield str(write_shape(options.shape, Path(folder) / options.shape))


def load_of(options: argparse.Namespace, concurrency: int, vocab: int, requests: int = 0) -> Load:
    """The options' load for so many clients; three requests per client when not given."""
    return Load(concurrency, requests or 3 * concurrency, options.prompt_tokens, options.output_tokens, vocab)


def report(options: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Print the figures with what they were measured on: one JSON object, or a table."""
    load = {name: value for name, value in vars(options).items() if name in ("prompt_tokens", "output_tokens")}
    made = {"base": options.shape or options.base, **load, **figures, "machine": machine()}
    print(json.dumps(made) if options.json else "\n".join(_table(made)))


def machine() -> dict[str, Any]:
    """The processor, its cores, and what decides how they are used."""
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if line.startswith("model name")] if info.exists() else []
    return {
        "cpu": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "waiting": {name: os.environ[name] for name in THEIRS if name in os.environ},
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def quiet(seconds: float = 2.0) -> float:
    """The share of the machine's time, from 0 to 1, in which nothing runs now; what is measured on less is worth less.

    A machine that is busy is told on stderr.
    """
    before = _times()
    time.sleep(seconds)
    idle, whole = (after - at for at, after in zip(before, _times(), strict=True))
    share = round(idle / whole, 3) if whole else 1.0
    if share < QUIET:
        print(f"Something else runs here: {share:.0%} of the machine is free. Measure on a quiet one.", file=sys.stderr)
    return share


def _times() -> tuple[float, float]:
    """Of all cores since they started: idle, and altogether; zeros where nobody counts."""
    stat = Path("/proc/stat")
    counts = [float(one) for one in stat.read_text().split("\n", 1)[0].split()[1:9]] if stat.exists() else [0.0] * 8
    return counts[3] + counts[4], sum(counts)


def _table(figures: dict[str, Any], indent: str = "") -> Iterator[str]:
    width = max(map(len, figures), default=0)
    for name, value in figures.items():
        if not isinstance(value, dict):
            yield f"{indent}{name:<{width}}  {value}"
        elif any(isinstance(one, dict) for one in value.values()):
            yield f"{indent}{name}"
            yield from _table(value, indent + "  ")
        else:
            yield f"{indent}{name:<{width}}  " + "  ".join(f"{key} {one}" for key, one in value.items())
