"""standing_still: a process and its children stop, and go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from peers.standing_still import standing_still, tree
from support.waiting import eventually

#: A process with a child; both count, a hundred times a second, into a file each.
COUNTING = """
import subprocess, sys, time
name = sys.argv[1]
child = subprocess.Popen([sys.executable, "-c", sys.argv[2], name + "-child", ""]) if sys.argv[2] else None
number = 0
while True:
    number += 1
    open(name, "w").write(str(number))
    time.sleep(0.01)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes below another are found in /proc")
def test_a_process_and_all_below_it_stand_still_and_go_on(tmp_path: Path) -> None:
    files = [tmp_path / "a", tmp_path / "a-child"]

    def counts() -> list[str]:
        return [file.read_text() if file.exists() else "" for file in files]

    process = subprocess.Popen([sys.executable, "-c", COUNTING, str(files[0]), COUNTING])
    try:
        eventually(lambda: all(counts()))
        with standing_still(process.pid):
            eventually(lambda: [_state(pid) for pid in tree(process.pid)] == ["T", "T"])
            before = counts()
        eventually(lambda: all(now != then for now, then in zip(counts(), before, strict=True)))
    finally:
        for pid in reversed(tree(process.pid)):
            subprocess.run(["kill", str(pid)], check=True)
        process.wait()


def test_a_process_that_has_ended_is_nothing_to_stop() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with standing_still(process.pid):
        pass


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
