"""What is set once for a process that serves: how compute threads wait, how many there are, how Python's take turns."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

#: How OpenMP's threads wait for work: they spin for some 90 µs, longer than between two matmuls, and then sleep.
#: One that spins on takes a core from whoever could use it, be it the event loop or another process, and then all wait
#: for a thread that does not get to run. Decision 0017 has the numbers. libgomp spins a twentieth as long once several
#: threads have run something in parallel, unless the policy is active; Intel's library reads its own variable.
WAITING = {"OMP_WAIT_POLICY": "active", "GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}
#: What people set who know better; any of them leaves everything to them.
THEIRS = tuple(WAITING)
#: Longest that a thread keeps the interpreter from another that wants it, in seconds; a tenth of Python's own default.
SWITCH_INTERVAL_S = 0.0005

_CGROUP = Path("/sys/fs/cgroup")


def set_waiting(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Tell OpenMP how to wait, unless somebody has; False when torch is loaded, which reads it no more."""
    if "torch" in sys.modules:
        return False
    if not any(name in environment for name in THEIRS):
        environment.update(WAITING)
    return True


def set_turns() -> None:
    """Let the loop's thread have the interpreter soon after each matmul, whatever the event loop is busy with."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


def usable_cores() -> int:
    """Cores that this process may use: of its affinity mask, and no more than the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(cpu_quota(_CGROUP) or cores)))


def cpu_quota(root: Path) -> float | None:
    """Cores that the control group mounted at `root` grants (`cpu.max`, or `cpu.cfs_*_us`); None: all there are."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((root / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except (OSError, ValueError):
            return None
    try:
        granted = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max"
        return None
    return granted if granted > 0 else None  # -1: no limit
