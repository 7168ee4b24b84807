"""run_in_background: threads that work beside the loop's take what it leaves of the cores."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress

import torch

#: How much less than the loop's such a thread counts: a tenth of its share where both want one core (`man 7 sched`).
NICENESS = 10


def run_in_background() -> None:
    """Lower the calling thread's priority, where threads have their own, and let torch work in it alone.

    Torch's operations would bring a team of threads each, which the loop's own team would have to share the cores with.
    """
    if sys.platform == "linux":  # elsewhere it would be the whole process
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
    torch.get_num_threads()  # what it sets first in each thread is what is set anew here, for this thread alone
    with suppress(OSError, AttributeError):
        _openmp().omp_set_num_threads(1)


def _openmp() -> ctypes.CDLL:
    """The library that torch has loaded."""
    for name in ("libgomp.so.1", "libiomp5.so", "libomp.so"):
        with suppress(OSError):
            return ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0) | os.RTLD_LAZY)
    raise OSError("no OpenMP in this process")
