"""What is live is written for other servers, in their formats, and what they cannot do is told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from cli.conftest import Cli
from graftwork.adapters.outline import Outline
from graftwork.client.servers.served import Served
from graftwork.client.servers.vllm import max_rank
from graftwork.testing import write_lora
from support.documents import document, route


@pytest.fixture
def stocked(cli: Cli, outline: Outline, tmp_path: Path) -> Cli:
    """An adapter in two versions, a route that always leads to one, and one that decides."""
    for seed, version in enumerate(("tone:1.0.0", "tone:1.1.0")):
        cli("push", str(write_lora(tmp_path / f"lora-{seed}", outline, seed=seed)), version)
    cli("promote", "tone:1.0.0")
    targets = [{"reference": "tone:1.1.0", "weight": 1}, {"reference": "gone:1.0.0", "weight": 1}]
    found = [route("front", "tone@production"), document("Route", "split", rules=[{"targets": targets}])]
    (tmp_path / "routes.yaml").write_text(yaml.safe_dump_all(found))
    assert cli("apply", "-f", str(tmp_path / "routes.yaml")).code == 0
    return cli


NAMES = {"front": "tone-1.0.0", "tone": "tone-1.0.0", "tone:1.1.0": "tone-1.1.0"}


def test_vllm_is_started_with_every_adapter(stocked: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = stocked("export", "--format", "vllm", "-o", str(out))
    assert ran.code == 0 and ran.out.splitlines()[0].split() == ["front", "tone:1.0.0"]
    assert "Route/split: gone:1.0.0 names no version now; left out." in ran.err
    assert "Route/split: its rules decide by request; its versions are there by their references." in ran.err
    base, moved = (
        json.loads((out / "lora-modules.json").read_text())[0]["base_model_name"],
        tmp_path / 'moved "a\\b" $1',
    )
    out.rename(moved)
    words = started(moved, "--port", "8000", folder=tmp_path)
    assert words[:3] == ["serve", base, "--enable-lora"] and words[-2:] == ["--port", "8000"]
    modules = [json.loads(word) for word in words[words.index("--lora-modules") + 1 : -2]]
    assert {one["name"]: one["path"] for one in modules} == {
        name: str(moved / "adapters" / folder) for name, folder in NAMES.items()
    }
    assert all((Path(one["path"]) / "adapter_config.json").is_file() for one in modules)
    listed = json.loads((moved / "lora-modules.json").read_text())
    assert all((moved / one["path"] / "adapter_config.json").is_file() for one in listed)


def started(moved: Path, *more: str, folder: Path) -> list[str]:
    """What the script that was written calls vllm with, from elsewhere."""
    (folder / "vllm").write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    (folder / "vllm").chmod(0o755)
    places = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    ran = subprocess.run(["sh", str(moved / "serve.sh"), *more], cwd="/", env=places, check=True, capture_output=True)
    return ran.stdout.decode().split("\0")[:-1]


def test_triton_has_a_model_repository(stocked: Cli, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert stocked("export", "--format", "triton", "-o", str(out)).code == 0
    (model,) = (out / "model_repository").iterdir()
    assert f'name: "{model.name}"' in (model / "config.pbtxt").read_text()
    assert json.loads((model / "1" / "model.json").read_text())["enable_lora"] == "true"
    found = json.loads((model / "1" / "multi_lora.json").read_text())
    assert found == {name: str(out / "adapters" / folder) for name, folder in NAMES.items()}


def test_it_needs_a_folder_of_its_own(stocked: Cli, tmp_path: Path) -> None:
    assert stocked("export", "--format", "vllm").code == 2
    assert stocked("export", "--format", "vllm", "-o", "-").code == 2
    assert stocked("export", "--format", "vllm", "-o", str(tmp_path)).code == 2
    assert stocked("export", "--format", "tgi", "-o", str(tmp_path / "x")).code == 2


@pytest.mark.parametrize(("ranks", "most"), [((1,), 8), ((8, 9), 16), ((200,), 256), ((600,), 600)])
def test_the_largest_rank_is_one_that_vllm_takes(ranks: tuple[int, ...], most: int) -> None:
    assert max_rank([Served("a", "a:1.0.0", rank) for rank in ranks]) == most
