"""Seeds: a registry with as many versions as one likes, as if each had been pushed.

A block of versions is pushed, promoted, tagged and measured through the registry. Larger registries hold copies of
that block's rows, table by table, under other names and digests and with a chain of events that verifies.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import Table, select, text

from graftwork.access.chain import GENESIS
from graftwork.access.clock import timestamp, utc_now
from graftwork.access.events import sealed
from graftwork.access.tenants import LOCAL
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.db import Database
from graftwork.db.schema import evaluations, metadata, metrics
from graftwork.registry.registry import Registry
from graftwork.registry.search.indexing import Described
from graftwork.registry.tags import Tags
from graftwork.registry.versions import Version

BLOCK: Final = 1000
PER_ADAPTER: Final = 10
DATASETS: Final = 200
ACTOR: Final = "benchmark"
TASKS = ("summarize", "translate", "classify", "extract", "chat", "rewrite", "code", "route")
BASES = ("Llama-3-8B", "Llama-3-70B", "Qwen2-7B", "Mistral-7B", "smollm2-135m")
REGIONS = ("eu", "us", "ap")
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
WORDS = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in "aeiou" for c in ("ra", "lin", "to", "mes", "kat", "dun")]
_NODES: Final = 100_000  # more than a block has
_TENSORS = 28  # in the account, some 4 kB


def digest_of(*parts: object) -> str:
    return f"sha256:{hashlib.sha256(repr(parts).encode()).hexdigest()}"


def push_one(registry: Registry, number: int, name: str, rng: random.Random) -> Version:
    """Register one version, whose bytes are nobody's: a push without its files."""
    rank = rng.choice((4, 8, 16, 32, 64))
    files = ("README.md", "adapter_config.json", "adapter_model.safetensors")
    manifest = Manifest(tuple(BundleFile(path, rng.randrange(1 << 24), digest_of(path, number)) for path in files))
    said = {
        "task": TASKS[number // PER_ADAPTER % len(TASKS)],
        "language": rng.sample(("en", "de", "fr", "ja"), 2),
        "license": rng.choice(("apache-2.0", "mit", "cc-by-4.0")),
        "description": " ".join(rng.choices(WORDS, k=12)),
        "datasets": [{"uri": f"s3://data/{rng.randrange(DATASETS)}", "digest": digest_of("data")}],
        "labels": {"team": f"team-{rng.randrange(50)}"},
        "run": f"run-{number}",
    }
    tensor = {"used": True, "scale": 2.0, "reason": "", "rank": rank, "bytes": 4096, "module": "model.layers"}
    account = {"tensors": [{**tensor, "name": f"layers.{row}.q_proj.lora_A"} for row in range(_TENSORS)]}
    config = {"r": rank, "lora_alpha": 2 * rank, "target_modules": rng.sample(MODULES, 2), "peft_type": "LORA"}
    version, _ = registry.push(
        LOCAL,
        name,
        manifest,
        kind=rng.choice(("lora",) * 9 + ("ia3",)),
        base=rng.choice(BASES),
        base_digest=digest_of("base"),
        rank=rank,
        bytes=rank * 1000 + rng.randrange(1000),
        account=account,
        metadata=said,
        described=Described(config, " ".join(rng.choices(WORDS, k=60))),
        actor=ACTOR,
    )
    return version


def push_block(database: Database, count: int) -> None:
    """Push `count` versions, ten to an adapter; of each adapter the ninth is in production, the others follow dice."""
    registry, tags, rng = Registry(database), Tags(database), random.Random(1)
    for number in range(count):
        name = f"adapter-{number // PER_ADAPTER:03d}"
        version = push_one(registry, number, name, rng)
        if number % PER_ADAPTER in (3, PER_ADAPTER - 2):
            registry.promote(LOCAL, f"{name}:{version.semver}", actor=ACTOR)
        if rng.random() < 0.3:
            tags.set(LOCAL, f"{name}:{version.semver}", "region", rng.choice(REGIONS), actor=ACTOR)
        if rng.random() < 0.5:
            _measure(database, version, rng)


def _measure(database: Database, version: Version, rng: random.Random) -> None:
    own = {"tenant": LOCAL, "adapter": version.adapter, "sequence": version.sequence}
    told = {"family": "task", "name": "test-set", "split": "test", "source": "offline", "body": "{}"}
    told |= {"comparable": digest_of("test-set"), "blobs": "[]"}
    stamp = {"created_at": timestamp(utc_now()), "created_by": ACTOR}
    with database.transaction() as tx:
        for number in (1, 2):
            tx.execute(evaluations.insert().values({**own, "number": number, **told, **stamp}))
            values = {"rouge1": rng.random(), "accuracy": rng.random(), "latency_ms": 100 * rng.random()}
            rows = [{**own, "number": number, "name": name, "value": value} for name, value in values.items()]
            tx.execute(metrics.insert(), rows)


def fill(source: Database, target: Database, copies: int) -> None:
    """Write the rows of `source` to the empty `target` so many times, table by table."""
    with source.reading() as read:
        rows = {table: [dict(row._mapping) for row in read.execute(_in_order(table))] for table in _tables()}
    previous, position = GENESIS, 0
    for copy in range(copies):
        with target.transaction() as tx:
            for table, found in rows.items():
                made = [_copied(table, row, copy) for row in found if not copy or not _is_shared(table, row)]
                if table.name == "events":
                    made, previous, position = _chained(made, previous, position)
                if made:
                    tx.execute(table.insert(), made)
    with target.transaction() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(text("ANALYZE"))  # as it does by itself after a while; SQLite does not


def _tables() -> list[Table]:
    return [table for table in metadata.sorted_tables if table.name != "idempotency_keys"]


def _in_order(table: Table) -> Any:
    return select(table).order_by(*table.primary_key.columns)


def _is_shared(table: Table, row: Mapping[str, Any]) -> bool:
    """Whether copies have this row in common: what their versions came from."""
    return table.name == "lineage_nodes" and row["kind"] != "version"


def _copied(table: Table, row: Mapping[str, Any], copy: int) -> dict[str, Any]:
    """A row of another copy: other adapters, other digests, values a little off."""
    made = dict(row)
    for column in ("adapter", "subject") if table.name != "adapters" else ("name",):
        if column in made:
            made[column] = f"{made[column]}-{copy:03d}"
    if table.name == "versions":
        made["digest"] = digest_of(made["digest"], copy)
        made["created_at"] = f"{made['created_at'][:-4]}{copy:03d}Z"
    if table.name == "lineage_nodes" and row["kind"] == "version":
        made |= {"number": row["number"] + copy * _NODES, "name": digest_of(row["name"], copy)}
    if table.name == "lineage_edges":
        made["source"] += copy * _NODES  # of a version; what it came from is shared
    if table.name == "metrics":
        made["value"] *= 1 - copy / 1_000_000
    if table.name == "texts":
        made.pop("id")
        made["words"] += f" copy{copy:03d}"
    return made


def _chained(rows: list[dict[str, Any]], previous: str, position: int) -> tuple[list[dict[str, Any]], str, int]:
    made = []
    for row in rows:
        position += 1
        row = sealed(
            {**{key: value for key, value in row.items() if key != "hash"}, "position": position, "previous": previous}
        )
        previous = row["hash"]
        made.append(row)
    return made, previous, position
