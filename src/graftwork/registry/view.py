"""AdapterView: one adapter's versions and aliases at one moment, and which version a selector names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from graftwork.registry.pointers import PRODUCTION
from graftwork.registry.reference import Alias, Digest, Selector, Semver, Sequence
from graftwork.registry.rules.standing import Standing
from graftwork.registry.versions import Version


@dataclass(frozen=True)
class AdapterView:
    """Immutable; `versions` in the order they were pushed, at least one, each in the state it has."""

    tenant: str
    name: str
    versions: tuple[Version, ...]
    aliases: Mapping[str, Version]
    standing: Standing = field(default_factory=Standing)

    @classmethod
    def of(
        cls, versions: Iterable[Version], pointers: Mapping[str, int], standing: Standing | None = None
    ) -> AdapterView | None:
        """The view of one adapter's versions, in order, its aliases and what else was said; None without versions."""
        standing = standing or Standing()
        held: dict[int, list[str]] = {}
        for alias, sequence in pointers.items():
            held.setdefault(sequence, []).append(alias)
        found = tuple(
            standing.of(version.with_aliases(held[version.sequence]) if version.sequence in held else version)
            for version in versions
        )
        if not found:
            return None
        by_sequence = {version.sequence: version for version in found}
        aliases = {alias: by_sequence[sequence] for alias, sequence in pointers.items()}
        return cls(found[0].tenant, found[0].adapter, found, aliases, standing)

    @property
    def newest(self) -> Version:
        """The version pushed last."""
        return self.versions[-1]

    @property
    def production(self) -> Version | None:
        return self.aliases.get(PRODUCTION)

    def find(self, selector: Selector) -> Version | None:
        """The one version that the selector names; None when none, or more than one, fits."""
        match selector:
            case Semver(version):
                return self._by_semver.get(version)
            case Alias(name):
                return self.aliases.get(name)
            case Digest(prefix):
                return self._with_prefix(prefix)
            case Sequence(number):
                return self._by_sequence.get(number)
        return self.production or self.newest

    @cached_property
    def _by_semver(self) -> dict[str, Version]:
        return {version.semver: version for version in self.versions}

    @cached_property
    def _by_sequence(self) -> dict[int, Version]:
        return {version.sequence: version for version in self.versions}

    @cached_property
    def by_digest(self) -> dict[str, Version]:
        """Versions by whole digest."""
        return {version.digest: version for version in self.versions}

    def _with_prefix(self, prefix: str) -> Version | None:
        if (whole := self.by_digest.get(prefix)) is not None:
            return whole
        fitting = [version for version in self.versions if version.digest.startswith(prefix)]
        return fitting[0] if len(fitting) == 1 else None
