"""Process: OpenMP is told how to wait before torch is loaded, and what people have set is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graftwork.process import SWITCH_INTERVAL_S, THEIRS, cpu_quota, set_waiting, usable_cores

TELL = """
import os, sys
told = [os.environ.get(name) for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")]
print(*told, "torch" in sys.modules, sys.getswitchinterval())
"""


def told(code: str, **environment: str) -> list[str]:
    """What a fresh Python says of itself after `code`."""
    clean = {name: value for name, value in os.environ.items() if name not in THEIRS}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{TELL}"], env=clean | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_the_engine_of_ones_own_process_sets_it_before_torch_is_loaded() -> None:
    assert told("from graftwork import Engine")[:3] == ["active", "2000", "True"]
    assert told("from graftwork import Engine", OMP_WAIT_POLICY="passive")[:3] == ["passive", "None", "True"]
    assert told("from graftwork import Engine", GOMP_SPINCOUNT="10")[:3] == ["None", "10", "True"]


def test_the_server_starts_without_torch_and_sets_it_where_the_engine_is_made() -> None:
    assert told("import graftwork.cli.main, graftwork.gateway.server")[:3] == ["None", "None", "False"]
    make = """
from graftwork.errors import GraftworkError
from graftwork.gateway import real_engine
from graftwork.settings import Settings
try:
    real_engine.make_engine(Settings(base="/nowhere/at/all"), None, lambda what: None)
except GraftworkError:
    pass
"""
    assert told(make)[:2] == ["active", "2000"]


def test_threads_of_a_server_take_turns_sooner() -> None:
    serve = """
from graftwork.gateway import server
server.build_app = lambda *args, **kwargs: exit_with_what_is_set()
def exit_with_what_is_set():
    raise KeyboardInterrupt
try:
    server.serve(None, lambda what: None)
except KeyboardInterrupt:
    pass
"""
    assert float(told(serve)[3]) == pytest.approx(SWITCH_INTERVAL_S)


def test_once_torch_is_loaded_nothing_is_claimed() -> None:
    import torch

    environment = {"OTHER": "1"}
    assert torch.get_num_threads() and not set_waiting(environment)
    assert environment == {"OTHER": "1"}


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000\n"}, 2.0),
        ({"cpu.max": "50000 100000"}, 0.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "150000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "what?"}, None),
        ({}, None),
    ],
)
def test_a_container_may_grant_fewer_cores(files: dict[str, str], cores: float | None, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == cores


def test_there_is_a_core_to_use() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
