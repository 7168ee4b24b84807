"""LoadFailures: which versions could not be loaded just now, so that the next caller is told at once."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from graftwork.engine.request import AdapterHandle
from graftwork.errors import GraftworkError, Unavailable

log = logging.getLogger(__name__)

#: Most failures that are remembered.
_MOST = 1024


@dataclass(frozen=True)
class Failure:
    """Why a version could not be loaded, when that was, and until when nobody tries again (both of `time.time`)."""

    tenant: str
    label: str
    error: GraftworkError
    at_s: float
    until_s: float


class LoadFailures:
    """Owns the failures of the last `ttl_s` seconds, by digest; 0 remembers none.

    Everybody is told by an error of his own: one that several callers raise gathers the frames of them all, those that
    still run too, and whoever lets go of its frames would end them.
    """

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.time) -> None:
        self._ttl_s, self._clock = ttl_s, clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, Failure] = OrderedDict()  # the oldest first

    def note(self, handle: AdapterHandle, error: GraftworkError) -> None:
        """A load has failed, and would again."""
        let_go_of_frames(error)
        if self._ttl_s <= 0:
            return
        now = self._clock()
        with self._lock:
            self._failures.pop(handle.digest, None)
            self._failures[handle.digest] = Failure(handle.tenant, handle.label, _twin(error), now, now + self._ttl_s)
            while len(self._failures) > _MOST:
                self._failures.popitem(last=False)

    def of(self, digest: str) -> Failure | None:
        """The failure that still counts, or None; its error is the caller's to raise."""
        with self._lock:
            found = self._failures.get(digest)
            if found is None:
                return None
            if found.until_s <= self._clock():
                del self._failures[digest]
                return None
        return replace(found, error=_twin(found.error))

    def check(self, digest: str) -> None:
        """Raise the error of a failure that still counts."""
        if (failure := self.of(digest)) is not None:
            raise failure.error

    def forget(self, digest: str) -> None:
        """Somebody did something about it: the next load is tried at once."""
        with self._lock:
            self._failures.pop(digest, None)

    def recent(self) -> dict[str, Failure]:
        """Every failure that still counts, by digest."""
        with self._lock:
            now = self._clock()
            found = {digest: one for digest, one in self._failures.items() if one.until_s > now}
        return {digest: replace(one, error=_twin(one.error)) for digest, one in found.items()}


def unforeseen(handle: AdapterHandle, error: BaseException) -> Unavailable:
    """What callers are told of an error that nobody thought of; the log has all of it."""
    log.error("The adapter %s could not be loaded.", handle.label, exc_info=error)
    let_go_of_frames(error)  # who keeps the log keeps the error
    return Unavailable(f"The adapter {handle.label} could not be loaded: {type(error).__name__}: {error}")


def for_callers(error: GraftworkError) -> GraftworkError:
    """What callers are told of a load's error, which lets go of its frames: the same, by one that no load meets again.

    A source may raise one error several times, and each time its frames would be emptied, those of callers among them.
    """
    let_go_of_frames(error)
    return _twin(error)


def _twin(error: GraftworkError) -> GraftworkError:
    """An error that says the same, and came through no frame yet."""
    kind = type(error)
    twin = kind.__new__(kind, *error.args)
    twin.__dict__.update(error.__dict__)
    return twin


def let_go_of_frames(error: BaseException | None) -> None:
    """Empty the frames that an error came through; else they live as long as it does.

    What they hold may be large: the files of an adapter, mapped, or all its tensors. Nobody else may have raised the
    error: to empty the frame of a coroutine that waits ends it.
    """
    seen, left = set[int](), [error]
    while left:
        if (one := left.pop()) is not None and id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            left += [one.__cause__, one.__context__]
