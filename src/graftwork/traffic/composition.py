"""Composition: several adapter versions with scales that answer together, as one with a digest of its own."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from graftwork.errors import Refused
from graftwork.protocol.canonical import canonical, sha256
from graftwork.registry.versions import Version


@dataclass(frozen=True)
class Composition:
    """What is left when equal versions are added up and those of scale 0 are gone; in order of their labels."""

    parts: tuple[tuple[Version, float], ...]

    @classmethod
    def of(cls, named: Iterable[tuple[Version, float]]) -> Composition:
        """The order in which they are named does not matter, nor by which name one is known.

        Raises:
            Refused: the scales of one version add up to more than a number can hold.
        """
        versions: dict[str, Version] = {}
        scales: dict[str, list[float]] = defaultdict(list)
        for version, scale in named:
            known = versions.setdefault(version.digest, version)
            versions[version.digest] = min(known, version, key=lambda one: one.label)
            scales[version.digest].append(scale)
        found = [(version, _total(version, scales[digest])) for digest, version in versions.items()]
        return cls(tuple(sorted((one for one in found if one[1]), key=lambda one: (one[0].label, one[0].digest))))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON (RFC 8785) of the sorted pairs of digest and scale."""
        return sha256(canonical(sorted([version.digest, scale] for version, scale in self.parts), what="adapters"))

    @property
    def label(self) -> str:
        """`a:1.0.0*0.7+b:1.0.0*0.3`"""
        return "+".join(f"{version.label}*{canonical(scale, what='scale')}" for version, scale in self.parts)

    @property
    def names(self) -> str:
        """`a+b`"""
        return "+".join(sorted({version.adapter for version, _ in self.parts}))


def _total(version: Version, scales: list[float]) -> float:
    try:
        return math.fsum(scales)  # exact before it is rounded, and so the same in any order
    except OverflowError as error:
        raise Refused(f"The scales of {version.label} add up to more than a number can hold.") from error
