"""run_in_background: threads that work beside the loop's take what it leaves of the cores."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

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
    for library, function in _TEAMS:
        with suppress(OSError, AttributeError):  # not in this process
            getattr(ctypes.CDLL(library, mode=getattr(os, "RTLD_NOLOAD", 0) | os.RTLD_LAZY), function)(1)


#: What sets the team of the calling thread: OpenMP's, whose library has one of these names, and, inside torch, MKL's.
_TEAMS = (
    *((name, "omp_set_num_threads") for name in ("libgomp.so.1", "libiomp5.so", "libomp.so")),
    (str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"), "MKL_Set_Num_Threads_Local"),
)
