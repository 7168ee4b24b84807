"""What the pages tell people to run, run against a real server; and the demo."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, blocks_of, named, pages, text_of
from docs.running import Place, run_page, says

pytestmark = pytest.mark.e2e

RUNNABLE = [name for name in map(named, pages()) if any(block.runs for block in blocks_of(name))]


@pytest.mark.parametrize("page", RUNNABLE)
def test_blocks_do_what_the_page_says(page: str, place: Place) -> None:
    there = set(place.folder.iterdir())
    for ran in run_page(page, place):
        assert (ran.code != 0) == ("fails" in ran.block.flags), f"{ran.block} exits with {ran.code}:\n{ran.printed}"
        if ran.promised is not None:
            assert says(ran.promised, ran.printed), f"{ran.block} prints:\n{ran.printed}"
    assert set(place.folder.iterdir()) == there, "begin the page with a folder of its own, as others do"


def test_blocks_that_start_the_server_are_plain() -> None:
    for page in map(named, pages()):
        for block in blocks_of(page):
            if "serve" in block.flags:
                last = block.text.splitlines()[-1]
                assert re.fullmatch(r"(graftwork|make) serve", last), f"{block}: the fixture starts nothing else"


def test_the_demo_answers_with_base_and_adapters_in_one_step(cache: Path, place: Place) -> None:
    environment = {key: value for key, value in place.environment.items() if key != "GRAFTWORK_HOME"}
    command = [sys.executable, "-m", "graftwork.cli", "demo", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["base"] == "smollm2-135m"
    assert len(result["answers"]) >= 12
    assert result["max_distinct_adapters_in_step"] >= 4
    (capital,) = [answer["text"] for answer in result["answers"] if "Japan" in answer["prompt"]]
    assert capital in text_of("README.md"), "the page shows what the base says"
    for answer in result["answers"]:
        assert answer["error"] is None and answer["text"], answer
        assert answer["ttft_ms"] > 0
        assert answer["digest"].startswith("sha256:")
        assert answer["model"] == (f"{answer['adapter']}:{answer['version']}" if answer["adapter"] else "smollm2-135m")
