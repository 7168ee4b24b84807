"""How fast do other engines answer the same load? Ours and each peer in turn, on this machine, in one run.

Each peer is installed into an environment of its own the first time it is asked for (see README.md beside this file for
how long that takes) and started for each cell with the settings that are best for it there. A round of ours and a round
of the peer, with the same prompts and adapters, make a pair; while one is measured, the other stands still. Ratios are
medians over pairs, ours over the peer.

    python benchmarks/peers/run.py --peers peft,vllm,llamacpp --json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx

from graftwork.models.base import PreparedBase
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from load import Load, Measured, asks, ratio, summary
from peers.llamacpp_peer import LlamaCppPeer
from peers.ours import our_server
from peers.peer import Cell, Peer, Target, Workload
from peers.peft_peer import PeftPeer
from peers.standing_still import standing_still
from peers.table import table
from peers.vllm_peer import VllmPeer
from random_adapters import mixed_ranks, write_adapter

CELLS = (
    Cell("c1_base", 1, 0),
    Cell("c1_n1", 1, 1),
    Cell("c8_n8", 8, 8),
    Cell("c32_base", 32, 0),
    Cell("c32_n32", 32, 32),
)
#: What `--peers` names; PEFT is driven in two ways.
PEERS: dict[str, Callable[[Path], list[Peer]]] = {
    "peft": lambda envs: [PeftPeer(envs, "mixed"), PeftPeer(envs, "sequential")],
    "vllm": lambda envs: [VllmPeer(envs, os.cpu_count() or 1)],
    "llamacpp": lambda envs: [LlamaCppPeer(envs, os.cpu_count() or 1)],
}
_ENVS = Path(__file__).resolve().parents[2] / ".graftwork" / "peers"
#: Of how many adapters, after how many prompts of how many tokens, a peer's next token is compared with ours.
_CHECKED_ADAPTERS, _CHECKED_PROMPTS, _CHECKED_LENGTH = 4, 4, 32


def main() -> None:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # through every `finally`: no server is left behind
    peers = [peer for name in options.peers for peer in PEERS[name](options.envs)]
    for peer in peers:
        peer.install()
    settings = Settings(base=options.base)
    base = prepare_base(settings)
    cells = [cell for cell in CELLS if cell.name in options.cells]
    with tempfile.TemporaryDirectory(prefix="graftwork-peers-") as scratch:
        work = workload(base, Path(scratch), max(cell.adapters for cell in cells))
        with our_server(work, settings) as ours:
            results = {
                cell.name: {
                    peer.name: compare(ours, peer, work, cell, options, base) for peer in peers if fits(peer, cell)
                }
                for cell in cells
            }
    made = report(options, base, peers, results)
    print(json.dumps(made) if options.json else table(made))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=listed(PEERS), default=list(PEERS), help=f"of {', '.join(PEERS)}; all")
    names = [cell.name for cell in CELLS]
    parser.add_argument("--cells", type=listed(names), default=names, help=f"of {', '.join(names)}; all")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of rounds in each cell")
    parser.add_argument("--requests", type=int, default=0, help="requests of a round; two per client, at least four")
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--envs", type=Path, default=_ENVS, help="folder of the peers' environments")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def listed(known: Sequence[str] | dict[str, Any]) -> Callable[[str], list[str]]:
    """Reads `a,b` where both are known."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return names

    return read


def workload(base: PreparedBase, scratch: Path, adapters: int) -> Workload:
    """The base, and adapters of rank 8 and 16 by turns on all seven projections."""
    made = {
        f"bench-{index}": write_adapter(scratch / f"bench-{index}", base.outline, rank=mixed_ranks(index), seed=index)
        for index in range(adapters)
    }
    return Workload(base.name, base.folder, made, scratch)


def fits(peer: Peer, cell: Cell) -> bool:
    """Sorting a batch by adapter is another way than mixing it only where there are several."""
    return peer.name != "peft_sequential" or cell.adapters > 1


def compare(
    ours: Target, peer: Peer, work: Workload, cell: Cell, options: argparse.Namespace, base: PreparedBase
) -> dict[str, Any]:
    """One cell with one peer: rounds in turn. A peer that fails is shown as that, and the others go on."""
    print(f"{cell.name}: {peer.name} …", file=sys.stderr, flush=True)
    requests = options.requests or max(4, 2 * cell.concurrency)
    load = Load(cell.concurrency, requests, options.prompt_tokens, options.output_tokens, base.outline.vocab_size)
    names = work.names(cell)
    try:
        with peer.serve(work, cell) as theirs:
            checked = agreement(ours, theirs, work, names, load) if cell.adapters else {}
            pairs = alternate(ours, theirs, load, names, options.rounds)
    except (RuntimeError, OSError, httpx.HTTPError) as error:
        return {"failed": str(error) or repr(error)}
    our_rounds, their_rounds = zip(*pairs, strict=True)
    return {
        "requests": requests,
        "ours": summary(our_rounds),
        "peer": summary(their_rounds),
        "ratio": ratio(our_rounds, their_rounds) if all(one.tokens for one in their_rounds) else None,
        **checked,
    }


def alternate(
    ours: Target, theirs: Target, load: Load, names: Sequence[str], rounds: int
) -> list[tuple[Measured, Measured]]:
    """Pairs of rounds, after a short one of each that is not counted: it compiles and fills caches."""
    short = Load(load.concurrency, load.concurrency, load.prompt_tokens, 4, load.vocab)
    for target in (ours, theirs):
        target.measure(short, names, seed=1_000)

    def alone(target: Target, other: Target, seed: int) -> Measured:
        with standing_still(other.pid):
            return target.measure(load, names, seed)

    return [(alone(ours, theirs, seed), alone(theirs, ours, seed)) for seed in range(rounds)]


def agreement(ours: Target, theirs: Target, work: Workload, names: Sequence[str], load: Load) -> dict[str, int]:
    """Does the peer apply the adapters? How many of its first tokens are ours, and how many the base's.

    In bfloat16 two right engines choose another token now and then, where two are about as likely; an adapter that is
    not applied, or another one, gives another token nearly always.
    """
    counts = {"checked": 0, "as_ours": 0, "as_base": 0}
    for ask in asks(Load(1, _CHECKED_PROMPTS, _CHECKED_LENGTH, 1, load.vocab), names, seed=2_000):
        plain = theirs.greedy(work.base_name, ask.prompt, 1)
        for name in names[:_CHECKED_ADAPTERS]:
            text = theirs.greedy(name, ask.prompt, 1)
            counts["checked"] += 1
            counts["as_ours"] += text == ours.greedy(name, ask.prompt, 1)
            counts["as_base"] += text == plain
    return {f"first_tokens_{key}": value for key, value in counts.items()}


def report(
    options: argparse.Namespace, base: PreparedBase, peers: Sequence[Peer], results: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    ratios = {
        f"ratio_{cell}": {peer: found.get("ratio") for peer, found in by_peer.items()}
        for cell, by_peer in results.items()
    }
    ours = {"graftwork": version("graftwork"), "torch": version("torch"), "python": platform.python_version()}
    return {
        **ratios,
        "base": base.name,
        "rounds": options.rounds,
        "prompt_tokens": options.prompt_tokens,
        "output_tokens": options.output_tokens,
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),  # the peers'; our server sets its own
        },
        "versions": {"ours": ours} | {peer.name: peer.versions() for peer in peers},
        "cells": results,
    }


def processor() -> str:
    """The processor's own name, where Linux tells it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.processor())


if __name__ == "__main__":
    main()
