"""PreparedBase: a base model on disk with its outline; finding one again needs no torch."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from graftwork.adapters.outline import Outline
from graftwork.errors import Refused
from graftwork.settings import Settings

#: Built-in bases and the hub ids they are copies of.
BUILTIN_SOURCES = {"smollm2-135m": "HuggingFaceTB/SmolLM2-135M-Instruct"}
FINGERPRINT_NAME = "fingerprint.json"


@dataclass(frozen=True)
class PreparedBase:
    """The name a base answers to, its Hugging Face folder, and what adapters need to know of it."""

    name: str
    folder: Path
    outline: Outline


@dataclass(frozen=True)
class BasePlace:
    """Where one base is kept: `entry` is our cache folder (outline, fingerprint), `folder` holds the model's files."""

    name: str
    source: str
    entry: Path
    folder: Path


def base_name(settings: Settings) -> str:
    """The public name of the configured base, by the name grammar of adapters."""
    if settings.base_name is not None:
        return settings.base_name
    last = Path(settings.base).name if Path(settings.base).is_dir() else settings.base.rstrip("/").rsplit("/", 1)[-1]
    return public_name(last)


def public_name(text: str) -> str:
    """A name by the grammar of names, like the last part of a folder or a hub id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower().replace(".", "-")).strip("-") or "base"


def place_of(settings: Settings) -> BasePlace:
    """Where the configured base is, or will be, kept. A hub id has no folder before it is downloaded."""
    name, wanted = base_name(settings), settings.base
    if wanted in BUILTIN_SOURCES:
        entry = settings.bases / wanted
        return BasePlace(name, BUILTIN_SOURCES[wanted], entry, entry / "model")
    if (local := Path(wanted).expanduser()).is_dir():
        key = hashlib.sha256(str(local.absolute()).encode()).hexdigest()[:12]
        return BasePlace(name, str(local), settings.bases / f"{name}-{key}", local.absolute())
    entry = settings.bases / f"{name}-{hashlib.sha256(f'{wanted}@{settings.base_revision}'.encode()).hexdigest()[:12]}"
    return BasePlace(name, wanted, entry, entry / "model")


def find_base(settings: Settings) -> PreparedBase | None:
    """The configured base if it was prepared before and its files have not changed since."""
    place = place_of(settings)
    outline = Outline.load(place.entry)
    if outline is None or not place.folder.is_dir():
        return None
    try:
        kept = json.loads((place.entry / FINGERPRINT_NAME).read_text(encoding="utf-8"))
        if kept != fingerprint(place.folder):
            return None
    except (OSError, ValueError, Refused):
        return None
    return PreparedBase(place.name, place.folder, replace(outline, base=place.name))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, whole or sharded.

    Raises:
        Refused: when there are none, or when the index names shards that are not there.
    """
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        whole = folder / "model.safetensors"
        if whole.is_file():
            return [whole]
        if any(folder.glob("pytorch_model*.bin")):
            raise Refused(f"{folder} holds pickled weights only; save the model with safe_serialization=True.")
        raise Refused(f"{folder} holds no model.safetensors; the model is missing or only half downloaded.")
    try:
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise Refused(f"{index} is damaged: {error!r}. Download the model again.") from error
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise Refused(f"{folder} is only half downloaded: {', '.join(missing[:5])} missing of {len(names)} shards.")
    return [folder / name for name in names]


def fingerprint(folder: Path) -> dict[str, list[int]]:
    """Size and time of every file that makes the base what it is, so that a changed folder is prepared anew.

    Raises:
        Refused: as `weight_files`, or when there is no config.
    """
    config = folder / "config.json"
    if not config.is_file():
        raise Refused(f"{folder} has no config.json, so it is not a Hugging Face model folder.")
    files = [config, *weight_files(folder)]
    return {file.name: [file.stat().st_size, file.stat().st_mtime_ns] for file in files}
