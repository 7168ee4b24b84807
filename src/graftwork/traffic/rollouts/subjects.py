"""Subjects: what the events of rollouts are about."""

from __future__ import annotations

from typing import Final

_ROLLOUTS: Final = "rollouts/"


def subject_of(route: str) -> str:
    return f"{_ROLLOUTS}{route}"


def route_in(subject: str) -> str | None:
    """The route whose rollouts a subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(_ROLLOUTS) if subject.startswith(_ROLLOUTS) else None
