"""A real server that is told to stop: whoever still waits when the grace is over gets an error, and it exits."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from e2e.conftest import server
from graftwork.gateway.server import LAST_WORDS_S
from support.waiting import eventually

if TYPE_CHECKING:
    from e2e.conftest import Running

pytestmark = pytest.mark.e2e

#: Far more rows than run at a time, so that they are under way for seconds.
MANY = {"prompt": "Hello", "n": 128, "max_tokens": 400, "ignore_eos": True, "model": "alpha"}


@pytest.mark.alone
def test_answers_that_outlast_the_grace_end_with_an_error(running: Running, tmp_path: Path) -> None:
    grace_s = 0.2
    started = server(running.home, running.base, tmp_path / "log", GRAFTWORK_STOP_GRACE_S=str(grace_s))
    with started as (url, process), httpx.Client(base_url=f"{url}/v1", timeout=60) as http:
        with ThreadPoolExecutor(1) as threads, http.stream("POST", "/completions", json=MANY | {"stream": True}) as one:
            lines = one.iter_lines()
            first = next(lines)
            whole = threads.submit(http.post, "/completions", json=MANY)
            eventually(lambda: "in_progress 256.0" in httpx.get(f"{url}/metrics").text)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            *_, last = [line for line in lines if line]
            answer = whole.result(60)
        assert process.wait(60) == 0, (tmp_path / "log").read_text()
        assert time.monotonic() - began < grace_s + LAST_WORDS_S
    assert "error" not in first
    error = json.loads(last.removeprefix("data: "))["error"]
    assert (error["code"], error["message"]) == ("unavailable", "The server is shutting down.")
    assert (answer.status_code, answer.json()["error"]) == (503, error)
    assert answer.headers["retry-after"] == "1"
