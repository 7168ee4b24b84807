"""Subjects: what events about an adapter are about."""

from __future__ import annotations

SUBJECT = "adapters/"


def subject_of(name: str) -> str:
    """What the events about an adapter have as their subject."""
    return f"{SUBJECT}{name}"


def name_in(subject: str) -> str | None:
    """The adapter that an event's subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(SUBJECT) if subject.startswith(SUBJECT) else None
