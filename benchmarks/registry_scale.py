"""How long pushes, references, searches and impact take with 10, 1,000 and 100,000 versions, on both databases.

    python benchmarks/registry.py --json
    python benchmarks/registry.py --counts 10 1000 --postgresql postgresql://user@host/empty --mlflow PATH/python

Registries are filled by registry_seeds.py. References are resolved in the database, and in the snapshot beside it; a
search is its first page, and the figure is that of the slowest kind of query. `--mlflow` names a Python that has
mlflow-skinny, sqlalchemy and alembic: then MLflow's registry on SQLite registers versions in the same run.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from graftwork.access.tenants import LOCAL
from graftwork.db import Database
from graftwork.errors import NotFound
from graftwork.registry.lineage.lineage import Lineage
from graftwork.registry.reference import parse_reference
from graftwork.registry.registry import Registry
from graftwork.registry.search.search import Searches
from graftwork.registry.snapshot import SnapshotReader
from registry_seeds import BLOCK, DATASETS, PER_ADAPTER, fill, push_block, push_one

SEARCHES: dict[str, dict[str, str]] = {
    "all": {},
    "columns": {"filter": "rank <= 16 and stage = production"},
    "many": {
        "filter": 'task = "summarize" and metrics.rouge1 > 0.4 and base ~ "Llama-3" and rank <= 16 '
        'and stage = production and tag.region = "eu"'
    },
    "metric": {"filter": "metrics.rouge1 > 0.99"},
    "tag": {"filter": "tag.region = eu"},
    "rare fact": {"filter": "meta.run = run-3"},
    "two facts": {"filter": 'label.team = team-7 and dataset = "s3://data/3"'},
    "nothing": {"filter": "base = nobody"},
    "word": {"text": "bara"},
    "words": {"text": "bara belin bito"},
    "by metric": {"sort": "metrics.rouge1 desc"},
    "by metric, few": {"filter": "stage = production and task = chat", "sort": "metrics.rouge1 desc"},
    "by rank": {"sort": "rank"},
    "by name, tag": {"filter": "tag.region = ap", "sort": "name"},
}
PUSHES, RESOLVES, ROUNDS = 30, 300, 5
#: What MLflow does that is nearest to a push: a version of a registered model, with as many tags.
MLFLOW = """
import json, sys, time, statistics
from mlflow import MlflowClient
url, count = sys.argv[1], int(sys.argv[2])
client = MlflowClient(tracking_uri=url, registry_uri=url)
client.create_registered_model("m")
def push():
    begin = time.perf_counter()
    client.create_model_version("m", "file:///tmp/x", tags={f"key{n}": "value" for n in range(8)})
    return 1e3 * (time.perf_counter() - begin)
def times(do):
    found = []
    for _ in range(count):
        begin = time.perf_counter(); do(); found.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(found)
pushes = [push() for _ in range(count)]
client.set_registered_model_alias("m", "production", "1")
print(json.dumps({
    "versions": count, "push_p50_ms": statistics.median(pushes),
    "resolve_p50_ms": times(lambda: client.get_model_version_by_alias("m", "production")),
    "search_p50_ms": times(lambda: client.search_model_versions("tags.key1 = 'value'", max_results=50)),
}))
"""


def main() -> None:
    options = _options()
    figures: dict[str, Any] = {}
    with TemporaryDirectory(prefix="graftwork-bench-") as folder:
        root = Path(folder)
        theirs = _mlflow(options.mlflow, root) if options.mlflow else None
        for kind in options.databases:
            counts = {}
            for count in options.counts:
                with _database(kind, root / f"{kind}-{count}.db", options.postgresql) as url:
                    counts[str(count)] = measure(url, count, root)
            last = counts[str(options.counts[-1])]
            figures[kind] = {
                "resolve_p50_ms": last["resolve_p50_ms"],
                "search_p50_ms": last["search_p50_ms"],
                "impact_p50_ms": last["impact_p50_ms"],
                "push_over_mlflow": theirs and round(last["push_p50_ms"] / theirs["push_p50_ms"], 3),
                "versions": counts,
            }
    figures["mlflow"] = theirs
    print(json.dumps(figures) if options.json else json.dumps(figures, indent=2))


def measure(url: str, count: int, root: Path) -> dict[str, Any]:
    """Fill the empty database at `url` with `count` versions, and time what users do."""
    block = min(count, BLOCK)
    with Database(f"sqlite:///{root / f'block-{block}.db'}") as source, Database(url) as database:
        if not Registry(source).list_adapters(LOCAL).items:
            push_block(source, block)
        fill(source, database, count // block)
        registry, searches, rng = Registry(database), Searches(database), random.Random(2)
        lineage = Lineage(database)
        names = [item.name for item in registry.list_adapters(LOCAL, page_size=1000).items]
        ends = ("", "@production", ":1.0.0") if count >= PER_ADAPTER else ("",)
        references = [f"{rng.choice(names)}{rng.choice(ends)}" for _ in range(RESOLVES)]
        found = {name: _p50(ROUNDS, partial(_search, searches, said)) for name, said in SEARCHES.items()}
        resolves, data = iter(references), iter([f"dataset:s3://data/{rng.randrange(DATASETS)}" for _ in range(ROUNDS)])
        figures = {
            "resolve_p50_ms": _p50(RESOLVES, lambda: registry.resolve(LOCAL, next(resolves))),
            "search_p50_ms": max(found.values()),
            "searches_p50_ms": found,
            "impact_p50_ms": _p50(ROUNDS, lambda: _impact(lineage, next(data))),
            **_snapshot(database, registry, references, rng),
        }
        numbers = iter(range(10**6, 2 * 10**6))
        figures["push_p50_ms"] = _p50(PUSHES, lambda: push_one(registry, next(numbers), "pushed", rng))
    return figures


def _search(searches: Searches, said: dict[str, str]) -> None:
    searches.find(LOCAL, said.get("filter", ""), text=said.get("text", ""), sort=said.get("sort", "created_at desc"))


def _impact(lineage: Lineage, node: str) -> None:
    with suppress(NotFound):  # a small registry does not use all data sets
        lineage.impact(LOCAL, node)


def _snapshot(database: Database, registry: Registry, references: list[str], rng: random.Random) -> dict[str, Any]:
    reader, before, begin = SnapshotReader(database), _resident(), time.perf_counter()
    reader.current()
    first, grown = time.perf_counter() - begin, _resident() - before
    parsed = iter([parse_reference(reference) for reference in references])
    resolved = _p50(RESOLVES, lambda: reader.current().resolve(LOCAL, next(parsed)))
    push_one(registry, 10**7, "pushed", rng)
    begin = time.perf_counter()
    reader.current()
    return {
        "snapshot_resolve_p50_ms": resolved,
        "snapshot_first_read_s": round(first, 3),
        "snapshot_after_push_ms": round(1e3 * (time.perf_counter() - begin), 3),
        "snapshot_bytes": grown,
    }


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _p50(rounds: int, do: Callable[[], object]) -> float:
    """Milliseconds, the median of `rounds` after one that is not counted where there are few."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        do()
        times.append(1e3 * (time.perf_counter() - begin))
    return round(statistics.median(times), 3)


def _mlflow(python: str, root: Path) -> dict[str, Any]:
    command = [python, "-c", MLFLOW, f"sqlite:///{root / 'mlflow.db'}", str(PUSHES)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@contextmanager
def _database(kind: str, path: Path, postgresql: str | None) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{path}"
        for file in path.parent.glob(f"{path.name}*"):
            with suppress(OSError):
                file.unlink()
    elif postgresql:
        yield postgresql
    else:
        sys.path.append(str(Path(__file__).parents[1] / "tests"))
        from support.postgresql import postgresql_server

        with postgresql_server() as server, server.database() as url:
            yield url


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print one JSON object on one line")
    made.add_argument(
        "--counts", type=int, nargs="+", default=[10, 1000, 100_000], help="versions; over 1000 by thousands"
    )
    made.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    made.add_argument("--postgresql", help="an empty database for one count, instead of a server of our own")
    made.add_argument("--mlflow", metavar="PYTHON", help="a Python with mlflow-skinny, to be set beside")
    return made.parse_args()
