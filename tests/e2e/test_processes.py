"""Whole processes: the demo, asking, and servers that cannot start."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graftwork.testing import write_lora

if TYPE_CHECKING:
    from e2e.conftest import Running

pytestmark = pytest.mark.e2e


def graftwork(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graftwork.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_the_demo_asks_base_and_adapters_at_once(running: Running, tmp_path: Path) -> None:
    adapters = tmp_path / "examples" / "adapters"
    for seed, name in enumerate(("tone", "tone-v1", "code"), start=1):
        write_lora(adapters / name, running.outline, seed=seed)
    asked = [{"adapter": name, "prompt": "Hello there"} for name in ("tone", "tone-v1", "code", None)] * 3
    (adapters.parent / "prompts.json").write_text(json.dumps(asked))
    done = graftwork(running.environment(), "demo", "--json", "--adapters", str(adapters))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["base"] == "tiny"
    assert len(result["answers"]) == 12
    models = [answer["model"] for answer in result["answers"][:4]]
    assert models == ["tone:1.1.0", "tone:1.0.0", "code:1.0.0", "tiny"]
    first = result["answers"][0]
    assert (first["adapter"], first["version"], first["error"]) == ("tone", "1.1.0", None)
    assert first["digest"].startswith("sha256:")
    assert first["ttft_ms"] > 0
    assert result["max_distinct_adapters_in_step"] >= 2
    assert {row["name"] for row in running.client.adapters()}.isdisjoint({"tone", "code"})


def test_ask_streams_the_answer_and_says_who_gave_it(running: Running) -> None:
    done = graftwork(running.environment(), "ask", "gamma", "Hello there", "--max-tokens", "8", "--url", running.url)
    assert done.returncode == 0, done.stderr
    assert "gamma:2.0.0" in done.stderr
    whole = running.client.chat("Hello there", model="gamma", max_tokens=8, temperature=0)
    assert done.stdout == whole.text + "\n"


def test_ask_works_without_a_server(running: Running) -> None:
    done = graftwork(running.environment(), "ask", "gamma", "Hello there", "--max-tokens", "8", "-o", "json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    whole = running.client.chat("Hello there", model="gamma", max_tokens=8, temperature=0)
    assert (answer["model"], answer["text"]) == ("gamma:2.0.0", whole.text)


def test_asking_an_unknown_model_is_one_message(running: Running) -> None:
    done = graftwork(running.environment(), "ask", "nope", "Hello", "--url", running.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("graftwork: There is no model nope.")


def test_a_server_whose_base_is_missing_ends_with_the_reason(running: Running, tmp_path: Path) -> None:
    environment = {**running.environment(), "GRAFTWORK_HOME": str(tmp_path)}
    done = graftwork(environment, "serve", "--port", "0", "--base", "./nowhere")
    assert done.returncode == 1
    assert "./nowhere does not exist" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_server_whose_port_is_taken_says_so(running: Running) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = graftwork(running.environment(), "serve", "--port", port)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"Cannot listen on 127.0.0.1:{port}" in done.stderr


def test_the_demo_without_adapters_says_what_it_needs(running: Running, tmp_path: Path) -> None:
    done = graftwork(running.environment(), "demo", "--adapters", str(tmp_path))
    assert done.returncode == 1
    assert "--adapters" in done.stderr
