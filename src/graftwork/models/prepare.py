"""Prepare a base: bring its files here, once and atomically, and write its outline."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from graftwork.errors import Refused
from graftwork.models.base import FINGERPRINT_NAME, BasePlace, PreparedBase, find_base, fingerprint, place_of
from graftwork.models.builtin import BUILTIN_BASES
from graftwork.settings import Settings

#: Called with (done, total) while something slow goes on.
Progress = Callable[[int, int], None]

_HUB_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")


def prepare_base(settings: Settings, progress: Progress = lambda done, total: None) -> PreparedBase:
    """The configured base, made ready if this is the first time; a second process waits for the first.

    Raises:
        Refused: when the base is missing, half downloaded, not causal, or cannot be served rightly.
    """
    found = find_base(settings)
    if found is not None:
        return found
    place = place_of(settings)
    with _only_one(place.entry):
        found = find_base(settings)
        if found is not None:
            return found
        _bring(place, settings, progress)
        _write_outline(place, settings)
    found = find_base(settings)
    assert found is not None, "a base that was just prepared is found"
    return found


def _bring(place: BasePlace, settings: Settings, progress: Progress) -> None:
    if settings.base in BUILTIN_BASES:
        unpack = BUILTIN_BASES[settings.base]
        _atomically(place.folder, lambda folder: unpack(folder, progress))
    elif not place.folder.is_dir() or place.folder.parent == place.entry:
        if settings.base.startswith((".", "/", "~")):
            raise Refused(f"The base folder {settings.base} does not exist.")
        _atomically(place.folder, lambda folder: _download(settings, folder))


def _download(settings: Settings, folder: Path) -> None:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        snapshot_download(
            settings.base, revision=settings.base_revision, local_dir=folder, allow_patterns=list(_HUB_FILES)
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise Refused(
            f"The base {settings.base!r} is neither a built-in name ({', '.join(BUILTIN_BASES)}), nor a folder, nor a "
            f"hub model that can be downloaded: {reason}"
        ) from error


def _write_outline(place: BasePlace, settings: Settings) -> None:
    from graftwork.models.survey import survey

    marks = fingerprint(place.folder)
    outline = survey(place.folder, base=place.name, source=place.source, revision=settings.base_revision)
    place.entry.mkdir(parents=True, exist_ok=True)
    outline.save(place.entry)
    temporary = place.entry / f"{FINGERPRINT_NAME}.{os.getpid()}"
    temporary.write_text(json.dumps(marks), encoding="utf-8")
    temporary.replace(place.entry / FINGERPRINT_NAME)  # last: its presence says that the outline is whole


def _atomically(target: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill` write a new folder beside `target`, which then takes its place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        fill(temporary)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _only_one(entry: Path) -> Iterator[None]:
    entry.parent.mkdir(parents=True, exist_ok=True)
    with (entry.parent / f".{entry.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
