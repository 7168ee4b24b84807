"""Subjects: what an event says that it is about; and the kinds of events that others read than write them."""

from __future__ import annotations

from typing import Final

ADAPTERS = "adapters/"

VERSION_DELETED: Final = "version.deleted"
ADAPTER_DELETED: Final = "adapter.deleted"
SIGNATURE_ADDED: Final = "signature.added"


def subject_of(name: str) -> str:
    """What the events about an adapter have as their subject."""
    return f"{ADAPTERS}{name}"


def name_in(subject: str) -> str | None:
    """The adapter that an event's subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(ADAPTERS) if subject.startswith(ADAPTERS) else None
