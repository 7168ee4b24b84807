"""Targets: which linear layers of the base an adapter's config means, by PEFT's own rules.

Rule: `peft.tuners.tuners_utils.check_target_module_exists`.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, field
from itertools import pairwise

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.outline import Outline
from graftwork.adapters.patterns import Matcher

ALL_LINEAR = "all-linear"
_SHOWN = 5


@dataclass(frozen=True)
class Targets:
    """The fields of a config that choose modules; texts are patterns of whole paths, lists are names or ends of paths.

    Asking may raise Refused: a pattern is no regular expression, or takes too long to match.
    """

    modules: str | tuple[str, ...] | None
    exclude: str | tuple[str, ...] | None = None
    layers: tuple[int, ...] | None = None
    layers_pattern: tuple[str, ...] = ()
    matcher: Matcher = field(default_factory=Matcher, compare=False)

    def sites(self, outline: Outline) -> frozenset[str]:
        """Paths of the linear sites that are meant."""
        return frozenset(site.path for site in outline.linears if self.means(site.path))

    def problems(self, outline: Outline, stored: Collection[str]) -> list[str]:
        """Where config and weights disagree on the modules; `stored` are the paths of those that have weights."""
        targets = self.sites(outline)
        lists = (
            ("names modules on which this kind is not served here", self.elsewhere(outline, outline.site_of)),
            ("does not cover modules that have weights", sorted(set(stored) - targets)),
            ("names modules without weights", sorted(targets - set(stored))),
        )
        return [f"target_modules {what}: {', '.join(paths[:_SHOWN])}." for what, paths in lists if paths]

    @property
    def all_linear(self) -> bool:
        """Whether every linear layer but the head is meant."""
        return isinstance(self.modules, str) and self.modules.lower() == ALL_LINEAR

    def elsewhere(self, outline: Outline, served: Container[str]) -> list[str]:
        """Modules that the config names one by one and that are not among those where the kind is served."""
        if not isinstance(self.modules, tuple):
            return []
        others = (path for path in outline.modules if path not in served)
        return [path for path in others if not self._excludes(path) and _is_named(self.modules, path)]

    def unknown(self, outline: Outline) -> list[str]:
        """Names in the list that mean no module at all: misspelt ones, or those of other architectures."""
        names = self.modules if isinstance(self.modules, tuple) else ()
        return [name for name in names if not any(_is_named((name,), path) for path in outline.modules)]

    def means(self, path: str) -> bool:
        """Whether the module at `path` is meant; `all-linear` means every path that is asked for."""
        if self.modules is None or self._excludes(path):
            return False
        if isinstance(self.modules, str):
            return self.all_linear or self.matcher.matches(self.modules, path)
        return path in self.modules or (_is_named(self.modules, path) and self._in_layers(path))

    def _excludes(self, path: str) -> bool:
        if isinstance(self.exclude, str):
            return bool(self.exclude) and self.matcher.matches(self.exclude, path)
        return _is_named(self.exclude or (), path)

    def _in_layers(self, path: str) -> bool:
        if self.layers is None:
            return True
        parents = self.layers_pattern or (None,)
        return any(_layer_index(path, parent) in self.layers for parent in parents)


def read_targets(fields: ConfigFields) -> Targets:
    """The targets of a config; fields that its kind does not have are simply not there, `target_modules` must be."""
    pattern = fields.names("layers_pattern")
    return Targets(
        modules=fields.names("target_modules", needed=True) or (),
        exclude=fields.names("exclude_modules"),
        layers=fields.layers("layers_to_transform"),
        layers_pattern=(pattern,) if isinstance(pattern, str) else (pattern or ()),
    )


def _is_named(names: tuple[str, ...], path: str) -> bool:
    return any(path == name or path.endswith(f".{name}") for name in names)


def _layer_index(path: str, parent: str | None) -> int | None:
    """The first number that follows `parent` (or any name) in a dotted path."""
    for before, number in pairwise(path.split(".")):
        if number.isdecimal() and (parent is None or before == parent):
            return int(number)
    return None
