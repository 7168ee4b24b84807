"""Subjects: what an event says that it is about."""

from __future__ import annotations

ADAPTERS = "adapters/"


def subject_of(name: str) -> str:
    """What the events about an adapter have as their subject."""
    return f"{ADAPTERS}{name}"


def name_in(subject: str) -> str | None:
    """The adapter that an event's subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(ADAPTERS) if subject.startswith(ADAPTERS) else None
