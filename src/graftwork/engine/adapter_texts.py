"""AdapterTexts: the words of each adapter that brings its own, read from its folder beside the step loop."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from graftwork.adapters.companions.companions import Companions, read_companions
from graftwork.adapters.outline import Outline
from graftwork.engine.adapter_source import AdapterSource, patiently
from graftwork.engine.background import run_in_background
from graftwork.engine.load_failures import LoadFailures, for_callers, unforeseen
from graftwork.engine.request import AdapterHandle
from graftwork.engine.shared_future import result_of
from graftwork.engine.text import Text
from graftwork.errors import SHUTTING_DOWN, GraftworkError, Refused, Unavailable

_THREADS = 4
#: What is kept: a thousand that use the base's tokenizer itself, or sixteen with a tokenizer of their own; and so many
#: characters of a chat template take as much room as one of them.
_ROOM, _OWN_TOKENIZER, _TEMPLATE_CHARS = 1024, 64, 1 << 14


@dataclass(frozen=True)
class AdapterText:
    """What a version carries, and the text that comes of it."""

    companions: Companions
    text: Text

    @property
    def weight(self) -> int:
        template = len(self.companions.chat_template or "") // _TEMPLATE_CHARS
        return template + (_OWN_TOKENIZER if self.companions.added_tokens else 1)


class AdapterTexts:
    """Owns the texts, by digest; one is made once for all who wait for it. Failures are for `failures` to remember."""

    def __init__(
        self, source: AdapterSource, outline: Outline, text: Text, timeout_s: float, retries: int,
        failures: LoadFailures,
    ) -> None:  # fmt: skip
        self._source, self._outline, self._text, self._timeout_s = source, outline, text, timeout_s
        self._retries, self._failures = retries, failures
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, AdapterText] = OrderedDict()
        self._flights: dict[str, Future[AdapterText]] = {}
        self._closed = False
        self._pool = ThreadPoolExecutor(_THREADS, "graftwork-text", initializer=run_in_background)

    async def of(self, handle: AdapterHandle) -> AdapterText:
        """The text of a version; the first call for it reads its folder.

        Raises:
            Refused: what it carries cannot be used; `problems` says why.
            NotFound, Damaged, Unavailable: its files cannot be had, or not in time.
        """
        with self._lock:
            if self._closed:
                raise Unavailable(SHUTTING_DOWN)
            if (kept := self._kept.get(handle.digest)) is not None:
                self._kept.move_to_end(handle.digest)
                return kept
            flight = self._flights.get(handle.digest)
            if flight is None:
                self._failures.check(handle.digest)
                flight = self._flights[handle.digest] = self._pool.submit(self._make, handle)
        try:
            return await asyncio.wait_for(result_of(flight), self._timeout_s)
        except TimeoutError as error:
            raise Unavailable(f"The files of {handle.label} did not come in time; try again.") from error

    def close(self) -> None:
        """Take no more calls, and wait for the folder that each thread reads; whoever waits for another is told."""
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=True)

    def _make(self, handle: AdapterHandle) -> AdapterText:
        made: AdapterText | None = None
        try:
            made = patiently(lambda: self._read(handle), self._retries, self._go_on)
            return made
        except GraftworkError as error:
            if not self._closed:
                self._failures.note(handle, error)
            raise for_callers(error) from None
        except Exception as error:
            known = unforeseen(handle, error)
            self._failures.note(handle, known)
            raise known from error
        finally:
            with self._lock:
                del self._flights[handle.digest]
                if made is not None:
                    self._kept[handle.digest] = made
                    while sum(one.weight for one in self._kept.values()) > _ROOM:
                        self._kept.popitem(last=False)

    def _go_on(self) -> None:
        if self._closed:
            raise Unavailable(SHUTTING_DOWN)

    def _read(self, handle: AdapterHandle) -> AdapterText:
        with self._source.files(handle.tenant, handle.digest) as folder:
            found = read_companions(folder, self._outline.tokenizer, self._outline.vocab_size)
        if found.problems:
            raise Refused(
                f"The adapter {handle.label} cannot be served on {self._outline.base}.", problems=found.problems
            )
        return AdapterText(found.companions, self._text.with_companions(found.companions))
