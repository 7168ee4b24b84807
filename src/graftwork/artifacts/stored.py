"""Stored: one thing that lies somewhere under a digest, as whoever cleans up sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stored:
    """Bytes on a disk or in a bucket, and when they were last written or used (`time.time`)."""

    digest: str  #: of the blob, or of the version that they were made of
    bytes: int
    at_s: float
