"""Popularity: how much each adapter version was asked for lately; counts that halve every ten minutes."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from graftwork.engine.request import AdapterHandle

log = logging.getLogger(__name__)

#: A request counts half after so long, in seconds.
HALF_LIFE_S = 600.0
#: Most versions that are counted; of more, the coldest are forgotten.
MOST = 1 << 14


@dataclass(frozen=True)
class Asked:
    """A version, and how many requests of lately it stands for."""

    handle: AdapterHandle
    heat: float


class Popularity:
    """Owns the counts; with a file they outlive the process. Compositions, of which disks have no form, are not."""

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock = file, clock
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[AdapterHandle, float, float]] = {}  # heat, and when it was so
        self._saved = 0
        #: Requests that were counted by this process.
        self.num_noted = 0
        if file is not None:
            self._read(file)

    def note(self, handle: AdapterHandle) -> None:
        """A request asks for a version."""
        if handle.parts:
            return
        now = self._clock()
        with self._lock:
            _, heat, then = self._counts.get(handle.digest, (handle, 0.0, now))
            self._counts[handle.digest] = (handle, _decayed(heat, now - then) + 1.0, now)
            self.num_noted += 1
            if len(self._counts) > MOST:
                self._forget_coldest(now)

    def forget(self, digest: str) -> None:
        """Somebody wants this version out of memory: it counts anew."""
        with self._lock:
            self._counts.pop(digest, None)

    def ranked(self) -> list[Asked]:
        """Every version that was asked for, the most popular first."""
        with self._lock:
            now = self._clock()
            found = [Asked(handle, _decayed(heat, now - then)) for handle, heat, then in self._counts.values()]
        return sorted(found, key=lambda one: -one.heat)

    def save(self) -> None:
        """Write the counts to the file, whole or not at all; what the disk does not take is not kept."""
        if self._file is None:
            return
        with self._lock:
            if self._saved == self.num_noted:
                return
            self._saved = self.num_noted
            told = [(one.digest, one.tenant, one.label, heat, at) for one, heat, at in self._counts.values()]
        aside = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            aside.write_text(json.dumps(told), encoding="utf-8")
            aside.replace(self._file)
        except OSError as error:
            log.warning("What adapters were asked for cannot be written to %s: %s", self._file, error)
            with suppress(OSError):
                aside.unlink()

    def _read(self, file: Path) -> None:
        try:
            for digest, tenant, label, heat, at in json.loads(file.read_text(encoding="utf-8"))[:MOST]:
                handle = AdapterHandle(str(digest), str(tenant), str(label))
                if not math.isfinite(heat):
                    raise ValueError(f"{heat} is no count")
                self._counts[handle.digest] = (handle, max(0.0, float(heat)), min(float(at), self._clock()))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, LookupError, OverflowError) as error:
            log.warning("What adapters were asked for cannot be read from %s, and is counted anew: %s", file, error)
            self._counts.clear()

    def _forget_coldest(self, now: float) -> None:
        """An eighth at a time, so that it is seldom."""
        ranked = sorted(self._counts.items(), key=lambda item: _decayed(item[1][1], now - item[1][2]))
        for digest, _ in ranked[: MOST // 8]:
            del self._counts[digest]


def _decayed(heat: float, after_s: float) -> float:
    return float(heat * 0.5 ** (max(0.0, after_s) / HALF_LIFE_S))
