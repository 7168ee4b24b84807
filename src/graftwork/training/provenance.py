"""Provenance: which code trained, and where; whatever cannot be found out is left out."""

from __future__ import annotations

import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

#: What a training's numbers depend on.
PACKAGES = ("accelerate", "bitsandbytes", "datasets", "numpy", "peft", "tokenizers", "torch", "transformers", "trl")
_GIT_TIMEOUT_S = 10
#: `https://user:token@host/…`: nobody's token belongs into a registry.
_USER = re.compile(r"(?<=://)[^/]*@")


def code_version(folder: Path | None = None) -> dict[str, Any]:
    """`repo`, `commit` and `dirty` (whether tracked files differ) of the git repository around `folder`, or here.

    Empty outside of one, or without git.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {}
    found: dict[str, Any] = {"commit": commit}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    if changes is not None:
        found["dirty"] = bool(changes)
    repo = _git(folder, "config", "--get", "remote.origin.url")
    if repo and not {".", ".."} & set(re.split(r"[/\\]", repo)):  # a path from here says nothing elsewhere
        found["repo"] = _USER.sub("", repo)
    return found


def environment() -> dict[str, Any]:
    """Versions of Python and of the packages that matter, and the platform."""
    packages = {name: version for name in PACKAGES if (version := _version(name))}
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": packages}


def _git(folder: Path | None, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
