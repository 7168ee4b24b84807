"""AdapterLoader: brings adapters from forms on disk, or their files, into the cache, beside the steps; each once."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from graftwork.adapters.account import account_folder
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.kinds import BaseWeights, kind_of
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import ServingForm
from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.compose import Scaled, compose
from graftwork.engine.form_image import FormImage, image_of
from graftwork.engine.form_store import FormStore
from graftwork.engine.request import AdapterHandle
from graftwork.errors import GraftworkError, Refused, Unavailable

log = logging.getLogger(__name__)

_THREADS = 8


class AdapterSource(Protocol):
    """Where the bytes of a version come from; the engine does not know of registries and stores."""

    def folder(self, tenant: str, digest: str) -> Path:
        """A verified local folder of a version's files. Blocking; called in a loader thread.

        Raises:
            GraftworkError: when it is missing or damaged.
        """
        ...


@dataclass
class _Flight:
    """One load; `called_off` when the rows that wanted it have left, unless it is to be `kept` resident."""

    deadline: float
    kept: bool = False
    called_off: bool = False


#: Called in a loader thread when a load has ended; on success the version is resident with one pin, now the callee's.
OnLoaded = Callable[[str, GraftworkError | None], None]


class AdapterLoader:
    """Owns the loads in flight. A failed load leaves nothing behind, and the next request tries afresh."""

    def __init__(
        self, source: AdapterSource, cache: AdapterCache, outline: Outline, base: BaseWeights, dtype: torch.dtype,
        max_rank: int, timeout_s: float, on_loaded: OnLoaded, store: FormStore | None = None,
    ) -> None:  # fmt: skip
        self._source, self._cache, self._outline, self._base = source, cache, outline, base
        self._dtype, self._max_rank, self._timeout_s = dtype, max_rank, timeout_s
        self._on_loaded, self._store = on_loaded, store
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}
        #: Versions brought into the cache since the start.
        self.num_loads = 0
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="graftwork-load")

    def start(self, handle: AdapterHandle, *, keep: bool = False) -> None:
        """Begin to load a version, unless that goes on already; returns at once. `keep`: `cancel` has no effect."""
        with self._lock:
            flight = self._flights.get(handle.digest)
            begun = flight is not None
            if flight is None:
                flight = self._flights[handle.digest] = _Flight(time.monotonic() + self._timeout_s)
            flight.kept |= keep
            flight.called_off = False  # somebody waits for it (again)
        if not begun:
            self._pool.submit(self._run, handle, flight)

    def cancel(self, digest: str) -> None:
        """The rows that waited for this version have left: stop at the next chance."""
        with self._lock:
            if (flight := self._flights.get(digest)) is not None:
                flight.called_off = not flight.kept

    def close(self) -> None:
        """Call off all loads and wait for their threads."""
        with self._lock:
            for flight in self._flights.values():
                flight.called_off = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, handle: AdapterHandle, flight: _Flight) -> None:
        error: GraftworkError | None = None
        made: FormImage | None = None
        try:
            self._go_on(flight, handle)
            image = self._stored(handle)
            if image is None:
                image = made = image_of(self._form(flight, handle), self._dtype)
            self._cache.insert(handle.digest, image, flight.deadline, lambda: not flight.called_off)
        except GraftworkError as known:
            error = known
        except Exception as unknown:  # a loader thread must always report back, or its rows would wait for ever
            error = Unavailable(f"The adapter {handle.label} could not be loaded: {type(unknown).__name__}: {unknown}")
        with self._lock:
            del self._flights[handle.digest]
            self.num_loads += error is None
        self._on_loaded(handle.digest, error)
        if made is not None and error is None:
            self._keep(handle, made)  # its rows run already

    def _stored(self, handle: AdapterHandle) -> FormImage | None:
        """The form of a version as an earlier load left it on disk; a composition is never there.

        Compositions are too many, one for every scale that somebody tries, and each is soon made of its parts.
        """
        return None if self._store is None or handle.parts else self._store.read(handle.tenant, handle.digest)

    def _keep(self, handle: AdapterHandle, image: FormImage) -> None:
        if self._store is None or handle.parts:
            return
        try:
            self._store.write(handle.tenant, handle.digest, image)
        except Exception:  # the version is resident and served all the same
            log.exception("The serving form of %s could not be kept.", handle.label)

    def _go_on(self, flight: _Flight, handle: AdapterHandle) -> None:
        if flight.called_off:
            raise Unavailable(f"Nobody waits for the adapter {handle.label} any more.")
        if time.monotonic() >= flight.deadline:
            raise Unavailable(f"The adapter {handle.label} was not loaded within {self._timeout_s:g} s; try again.")

    def _form(self, flight: _Flight, handle: AdapterHandle) -> ServingForm:
        return self._composed(flight, handle) if handle.parts else self._read(flight, handle, self._dtype)[1]

    def _composed(self, flight: _Flight, handle: AdapterHandle) -> ServingForm:
        parts = [Scaled(part.label, *self._read(flight, part, torch.float32), scale) for part, scale in handle.parts]
        return compose(parts, self._outline, self._dtype, self._max_rank)

    def _read(self, flight: _Flight, handle: AdapterHandle, dtype: torch.dtype) -> tuple[str, ServingForm]:
        """The kind of one version, and its form."""
        self._go_on(flight, handle)
        folder = self._source.folder(handle.tenant, handle.digest)
        self._go_on(flight, handle)
        return self._convert(folder, handle, dtype)

    def _convert(self, folder: Path, handle: AdapterHandle, dtype: torch.dtype) -> tuple[str, ServingForm]:
        account = account_folder(folder, self._outline, max_rank=self._max_rank)
        if not account.ok:
            raise Refused(
                f"The adapter {handle.label} cannot be served on {self._outline.base}.",
                problems=account.problems,
            )
        opened = AdapterFolder.open(folder)
        kind = kind_of(opened.config)
        form = kind.serving_form(opened, self._outline, dtype, self._base)
        if (place := _overflow(form, self._outline)) is not None:
            raise Refused(
                f"The adapter {handle.label} cannot be served on {self._outline.base}: what its weights come to at "
                f"{place} is beyond {str(dtype).removeprefix('torch.')}. They are damaged, or scaled by far too much."
            )
        return kind.name, form


def _overflow(form: ServingForm, outline: Outline) -> str | None:
    """Where a form is not finite: an account sees what is stored, not what it comes to beside the base's weights."""
    for site, tensor in form.tensors():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return outline.linears[site.index].path if site.place == "linear" else f"{site.place} {site.index}"
    return None
