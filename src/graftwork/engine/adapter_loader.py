"""AdapterLoader: brings adapters from forms on disk, or their files, into the cache, beside the steps; each once."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch

from graftwork.adapters.account import account_folder
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.kinds import BaseWeights, kind_of
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import ServingForm
from graftwork.engine.adapter_cache import AdapterCache, CalledOff
from graftwork.engine.adapter_source import AdapterSource, patiently
from graftwork.engine.background import run_in_background
from graftwork.engine.compose import Scaled, compose
from graftwork.engine.form_image import FormImage, image_of
from graftwork.engine.form_store import FormStore
from graftwork.engine.load_failures import LoadFailures, for_callers, unforeseen
from graftwork.engine.request import AdapterHandle
from graftwork.errors import SHUTTING_DOWN, Damaged, GraftworkError, Refused, Unavailable

log = logging.getLogger(__name__)

_THREADS = 8

#: Who wants a load: rows that wait for it, somebody who named the version, or an engine that has nothing else to do.
Asker = Literal["rows", "explicit", "warm-up"]
#: How loads end: read from the form on disk, made of files or of other versions, or without success.
LOADED = ("form", "files", "composed")
OUTCOMES = (*LOADED, "refused", "damaged", "unavailable", "called_off")


@dataclass
class _Flight:
    """One load; it is called off when nobody wants it any more."""

    since_s: float  # of `time.time`
    deadline: float  # of `time.monotonic`
    tenant: str
    label: str
    askers: set[Asker] = field(default_factory=set)
    instead_of: Collection[str] | None = None  # what may leave for it, as long as only the warm-up wants it

    @property
    def called_off(self) -> bool:
        return not self.askers


#: Called in a loader thread when a load has ended; on success the version is resident with one pin, now the callee's.
OnLoaded = Callable[[str, GraftworkError | None], None]


class AdapterLoader:
    """Owns the loads in flight. A failed load leaves nothing behind but what `failures` remembers for a while."""

    def __init__(
        self, source: AdapterSource, cache: AdapterCache, outline: Outline, base: BaseWeights, dtype: torch.dtype,
        max_rank: int, timeout_s: float, retries: int, failures: LoadFailures, on_loaded: OnLoaded,
        store: FormStore | None = None,
    ) -> None:  # fmt: skip
        self._source, self._cache, self._outline, self._base = source, cache, outline, base
        self._dtype, self._max_rank, self._timeout_s, self._retries = dtype, max_rank, timeout_s, retries
        self._failures, self._on_loaded, self._store = failures, on_loaded, store
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}
        self._closed = False
        self._outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._pool = ThreadPoolExecutor(_THREADS, "graftwork-load", initializer=run_in_background)

    def start(self, handle: AdapterHandle, asker: Asker = "rows", *, instead_of: Collection[str] | None = None) -> None:
        """Begin to load a version, unless that goes on already; returns at once.

        Where a load failed a moment ago, its error is told again instead.
        """
        if (failure := self._failures.of(handle.digest)) is not None:
            self._on_loaded(handle.digest, failure.error)
            return
        with self._lock:
            closed = self._closed
            if not closed:
                self._join(handle, asker, instead_of)
        if closed:
            self._on_loaded(handle.digest, Unavailable(SHUTTING_DOWN))

    def _join(self, handle: AdapterHandle, asker: Asker, instead_of: Collection[str] | None) -> None:
        flight = self._flights.get(handle.digest)
        if flight is None:
            until = time.monotonic() + self._timeout_s
            flight = _Flight(time.time(), until, handle.tenant, handle.label, {asker}, instead_of)
            self._flights[handle.digest] = flight
            self._pool.submit(self._run, handle, flight)
            return
        flight.askers.add(asker)
        if asker != "warm-up":
            flight.instead_of = None

    def cancel(self, digest: str, asker: Asker = "rows") -> None:
        """Those who wanted this version do not any more: stop at the next chance, unless others do."""
        with self._lock:
            if (flight := self._flights.get(digest)) is not None:
                flight.askers.discard(asker)

    def close(self) -> None:
        """Call off all loads and wait for their threads; whoever waits for one that had not begun is told."""
        with self._lock:
            self._closed = True
            for flight in self._flights.values():
                flight.askers.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
        left, self._flights = self._flights, {}
        for digest in left:
            self._on_loaded(digest, Unavailable(SHUTTING_DOWN))

    @property
    def loading(self) -> dict[str, tuple[str, str, float]]:
        """Tenant, label and begin (`time.time`) of every load in flight, by digest."""
        with self._lock:
            return {digest: (one.tenant, one.label, one.since_s) for digest, one in self._flights.items()}

    @property
    def outcomes(self) -> dict[str, int]:
        """How many loads ended in which way since the start."""
        with self._lock:
            return dict(self._outcomes)

    def _run(self, handle: AdapterHandle, flight: _Flight) -> None:
        error: GraftworkError | None = None
        made: FormImage | None = None
        try:
            outcome, made = self._load(handle, flight)
        except GraftworkError as known:
            error, outcome = known, _outcome(known)
        except BaseException as unknown:  # a loader thread must always report back, or its rows would wait for ever
            error, outcome = unforeseen(handle, unknown), "unavailable"
        told = None if error is None else for_callers(error)
        del error  # it holds this frame
        with self._lock:
            del self._flights[handle.digest]
            self._outcomes[outcome] += 1
        self._on_loaded(handle.digest, told)
        if made is not None:
            self._keep(handle, made)  # its rows run already

    def _load(self, handle: AdapterHandle, flight: _Flight) -> tuple[str, FormImage | None]:
        """Bring a version into the cache: how it came, and its form where that should be kept."""
        self._go_on(flight, handle)
        outcome, made = "form", None
        image = self._stored(handle)
        if image is None:
            outcome = "composed" if handle.parts else "files"
            image = made = self._made(flight, handle)
        try:
            self._cache.insert(
                handle.digest, image, flight.deadline, lambda: not flight.called_off,
                tenant=handle.tenant, label=handle.label, instead_of=flight.instead_of,
            )  # fmt: skip
        except Refused as error:  # too large
            self._failures.note(handle, error)
            raise
        return outcome, made

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
            raise CalledOff(f"Nobody waits for the adapter {handle.label} any more.")
        if time.monotonic() >= flight.deadline:
            raise Unavailable(f"The adapter {handle.label} was not loaded within {self._timeout_s:g} s; try again.")

    def _made(self, flight: _Flight, handle: AdapterHandle) -> FormImage:
        """The form of a version from its files; what goes wrong with them is remembered."""
        try:
            return image_of(self._form(flight, handle), self._dtype)
        except CalledOff:
            raise
        except GraftworkError as error:
            self._failures.note(handle, error)
            raise
        except Exception as error:
            known = unforeseen(handle, error)
            self._failures.note(handle, known)
            raise known from error

    def _form(self, flight: _Flight, handle: AdapterHandle) -> ServingForm:
        return self._composed(flight, handle) if handle.parts else self._read(flight, handle, self._dtype)[1]

    def _composed(self, flight: _Flight, handle: AdapterHandle) -> ServingForm:
        parts = [Scaled(part.label, *self._read(flight, part, torch.float32), scale) for part, scale in handle.parts]
        return compose(parts, self._outline, self._dtype, self._max_rank)

    def _read(self, flight: _Flight, handle: AdapterHandle, dtype: torch.dtype) -> tuple[str, ServingForm]:
        """The kind of one version, and its form."""

        def attempt() -> tuple[str, ServingForm]:
            with self._source.files(handle.tenant, handle.digest) as folder:
                self._go_on(flight, handle)
                return self._convert(folder, handle, dtype)

        return patiently(attempt, self._retries, lambda: self._go_on(flight, handle))

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


def _outcome(error: GraftworkError) -> str:
    if isinstance(error, CalledOff):
        return "called_off"
    return "refused" if isinstance(error, Refused) else "damaged" if isinstance(error, Damaged) else "unavailable"


def _overflow(form: ServingForm, outline: Outline) -> str | None:
    """Where a form is not finite: an account sees what is stored, not what it comes to beside the base's weights."""
    for site, tensor in form.tensors():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return outline.linears[site.index].path if site.place == "linear" else f"{site.place} {site.index}"
    return None
