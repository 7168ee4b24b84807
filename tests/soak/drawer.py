"""Drawer: the adapters of a soak, of every kind and of many ranks, and what may become of a request for each."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contracts.kinds import KindCase, all_cases
from graftwork.errors import GenerationFailed, GraftworkError, Refused
from support.classifiers import make_classifier
from support.edited import Tensors, edited
from support.scale import LONG

_LABELS = 3


@dataclass(frozen=True)
class Drawn:
    """One adapter: its files, what shows it in a prompt, and the one error that a request for it ends with, if any."""

    name: str
    folder: Path
    shown_by: tuple[int, ...] = ()
    ends_in: type[GraftworkError] | None = None
    classifies: bool = False

    @property
    def generates(self) -> bool:
        return self.ends_in is None and not self.classifies


def fill_drawer(base: Path, root: Path) -> dict[str, Drawn]:
    """Adapters of every kind for the plain tiny base, a classifier, and three that cannot answer.

    The last are `overflows`, whose rows are not finite, and two that no registry would take: `nan` and `cut`.
    """
    drawer = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        for case in _cases():
            case.make(base, root / case.name)
            drawer[case.name] = Drawn(case.name, root / case.name, case.prompt or ())
        make_classifier(base, root / "classifier", labels=_LABELS)
        drawer["classifier"] = Drawn("classifier", root / "classifier", classifies=True)
    whole = root / "plain"
    for name, change, error in _BROKEN:
        drawer[name] = Drawn(name, edited(whole, root / name, change), ends_in=error)
    weights = drawer["cut"].folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return drawer


def _cases() -> list[KindCase]:
    """One for each kind, in a long run for each feature of each, and LoRA of every rank."""
    plain = [case for case in all_cases() if not case.base]
    first = {_sort(case): case for case in reversed(plain)}
    return [case for case in plain if case.name in _NAMED or first[_sort(case)] is case]


def _sort(case: KindCase) -> tuple[str, ...]:
    return (case.kind, case.feature) if LONG else (case.kind,)


def _overflows(tensors: Tensors) -> Tensors:
    """Queries and keys of about 1e36 each, so that no score is finite."""
    large = {name: value * np.float32(1e18) for name, value in tensors.items() if "q_proj" in name or "k_proj" in name}
    return tensors | large


def _nan(tensors: Tensors) -> Tensors:
    next(iter(tensors.values()))[0, 0] = np.nan
    return tensors


#: What operations and compositions ask for by name, and what changes a base as no first of a kind does.
_NAMED = (
    *("plain", "rank-1", "rank-3", "rank-48", "rank-63", "rslora", "patterns", "only-q"),
    *("dora", "ends", "activated", "prefix"),
)
_BROKEN: tuple[tuple[str, Callable[[Tensors], Tensors] | None, type[GraftworkError]], ...] = (
    ("overflows", _overflows, GenerationFailed),
    ("nan", _nan, Refused),
    ("cut", None, Refused),
)
