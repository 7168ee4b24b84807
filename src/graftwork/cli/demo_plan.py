"""DemoPlan: which folders the demo pushes under which names, and what it asks; read from the examples."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import graftwork
from graftwork.errors import InvalidRequest, NotFound

_OLDER = "-v1"


@dataclass(frozen=True)
class Question:
    """One request of the demo; `adapter` None asks the base."""

    adapter: str | None
    prompt: str


@dataclass(frozen=True)
class DemoPlan:
    """What the demo does, in order."""

    #: Folder and `NAME:SEMVER`; older versions first.
    pushes: tuple[tuple[Path, str], ...]
    promotions: tuple[str, ...]
    questions: tuple[Question, ...]


def plan_demo(folder: Path | None) -> DemoPlan:
    """The plan for the adapters in `folder`, or in the checkout's `examples/adapters`.

    A folder `X-v1` beside `X` is X's older version: it becomes X:1.0.0, and X becomes X:1.1.0.

    Raises:
        NotFound: there are no adapters.
        InvalidRequest: prompts.json cannot be read.
    """
    root = folder if folder is not None else _examples()
    found = (
        sorted(entry for entry in root.iterdir() if (entry / "adapter_config.json").is_file()) if root.is_dir() else []
    )
    if not found:
        raise NotFound(
            f"There are no adapters in {root}. Run the demo from a checkout, "
            "or give a folder of adapter folders with --adapters."
        )
    references = _references({entry.name for entry in found})
    pushes = sorted((references[entry.name], entry) for entry in found)
    newest = {reference.partition(":")[0]: reference for reference, _ in pushes}
    questions = _questions(root.parent / "prompts.json", references)
    return DemoPlan(tuple((entry, reference) for reference, entry in pushes), tuple(newest.values()), questions)


def _examples() -> Path:
    checkout = Path(graftwork.__file__).resolve().parents[2] / "examples" / "adapters"
    return checkout if checkout.is_dir() else Path.cwd() / "examples" / "adapters"


def _references(names: set[str]) -> dict[str, str]:
    """Folder name to `NAME:SEMVER`."""
    older = {name for name in names if name.endswith(_OLDER) and name.removesuffix(_OLDER) in names}
    newer = {name.removesuffix(_OLDER) for name in older}
    return {
        name: f"{name.removesuffix(_OLDER)}:1.0.0" if name in older else f"{name}:1.{int(name in newer)}.0"
        for name in names
    }


def _questions(path: Path, references: dict[str, str]) -> tuple[Question, ...]:
    """The questions of prompts.json to adapters that are there; one to each where there is no such file."""
    if not path.is_file():
        return tuple(Question(reference, "Who are you?") for reference in (None, *sorted(references.values())))
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        asked = [(entry["adapter"], str(entry["prompt"])) for entry in entries]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidRequest(f'{path} is not a list of {{"adapter", "prompt"}}: {error}.') from error
    return tuple(
        Question(_called(adapter, references), prompt)
        for adapter, prompt in asked
        if adapter is None or adapter in references
    )


def _called(adapter: str | None, references: dict[str, str]) -> str | None:
    """An older version by its reference, others by their bare name, as a caller would."""
    if adapter is None:
        return None
    return references[adapter] if adapter.endswith(_OLDER) else adapter
