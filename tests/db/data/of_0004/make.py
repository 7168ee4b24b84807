"""What wrote the registry beside it: run by the Graftwork of that time, through its client. See README.md."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from graftwork.client import Client
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline, write_lora


def main(home: Path, database_url: str | None) -> None:
    settings = Settings(home=home, base="fake-base", base_name="fake-base", database_url=database_url)
    app = build_app(settings, outline_of=fake_outline)
    with Client(app=app) as client, tempfile.TemporaryDirectory() as folder:
        fill(client, Path(folder))


def fill(client: Client, folder: Path) -> None:
    folders = [write_lora(folder / f"{seed}", fake_outline(), rank=2, seed=seed) for seed in range(4)]
    (folders[0] / "README.md").write_text("---\ntags: [tone]\n---\n# Tone, the first\n")
    first = {"description": "words of the first", "parents": ["meta-llama/Llama-3.1-8B"], "region": {"eu": [1, 2.5]}}
    client.push(folders[0], "tone", metadata=first, idempotency_key="push-tone")
    client.push(folders[1], "tone:1.1.0", metadata={"parents": ["tone:1.0.0"], "rank": "high", "hyperparameters": 7})
    client.push(folders[2], "tone")
    client.push(folders[3], "voice", metadata={"parents": "tone:1.1.0", "datasets": {"id": "squad"}})

    client.set_alias("tone", "champion", "tone:1.0.0")
    client.set_alias("tone", "challenger", "tone:1.1.1")
    client.remove_alias("tone", "challenger")
    for version in ("1.0.0", "1.1.0", "1.1.1"):
        client.promote(f"tone:{version}", reason=f"{version} is better", idempotency_key=f"promote-{version}")
    client.rollback("tone", reason="it was not", idempotency_key="rollback-tone")

    (folder / "examples.jsonl").write_text(
        "".join(json.dumps({"id": str(one), "scores": {"accuracy": one % 2}}) + "\n" for one in range(4))
    )
    (folder / "report.txt").write_text("As expected.\n")
    task = {"family": "task", "name": "sst2", "split": "test", "dataset": {"id": "stanfordnlp/sst2"}}
    for value, more in ((0.25, {}), (0.5, {"supersedes": 1})):
        metrics = [{"name": "accuracy", "value": value, "higher_is_better": True}]
        client.evaluations.add(
            "tone:1.1.0",
            {**task, "metrics": metrics, **more},
            examples=folder / "examples.jsonl",
            reports=[folder / "report.txt"],
            idempotency_key=f"evaluation-{value}",
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
