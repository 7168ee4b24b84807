"""Layout: which tensors a bottleneck adapter must have on a base, under the names that the `adapters` library gives.

Names and shapes: `adapters/methods/modeling.py` (`Adapter`, `PHMLayer`, `NICECouplingBlock`) of adapters 1.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from graftwork.adapters.bottleneck.config import BottleneckConfig
from graftwork.adapters.outline import Outline

Half = Literal["down", "up"]
Shapes = Iterator[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True)
class Module:
    """The adapter at one block of one decoder layer; its tensors' names begin with `path`."""

    path: str
    place: Literal["attention", "mlp"]
    layer: int
    width: int


@dataclass(frozen=True)
class Wanted:
    """A tensor that must be there; `module` and `part` are the account's words for it."""

    shape: tuple[int, ...]
    module: str
    part: str


class Layout:
    """The modules of one adapter on one base, and all their tensors."""

    def __init__(self, config: BottleneckConfig, outline: Outline) -> None:
        assert outline.blocks, "the account refuses a base without blocks"
        self.config, self.hidden_size = config, outline.hidden_size
        self._layers = [block.path for block in outline.blocks]
        root = self._layers[0].rpartition(".")[0].rpartition(".")[0]
        self._root = f"{root}." if root else ""
        self.problems: list[str] = []
        self.modules = tuple(self._modules())
        if config.invertible is not None and self.hidden_size // 2 < config.invertible:
            self.problems.append(f"config.inv_adapter_reduction_factor: {config.invertible} leaves no features.")

    @cached_property
    def wanted(self) -> Mapping[str, Wanted]:
        """Every tensor by its whole name."""
        found = {}
        for module in self.modules:
            for part, shape in self._module_shapes(module):
                found[f"{module.path}.{part}"] = Wanted(shape, module.path, part)
        for prefix, shapes in ((self.shared, self._shared_shapes()), (self.invertible, self._invertible_shapes())):
            found |= {f"{prefix}.{part}": Wanted(shape, prefix, part) for part, shape in shapes}
        return found

    @property
    def shared(self) -> str:
        """What the names of the tensors that all of a Compacter's modules share begin with."""
        return f"{self._root}shared_parameters.{self.config.name}"

    @property
    def invertible(self) -> str:
        """What the names of the invertible adapter's tensors begin with."""
        return f"{self._root}invertible_adapters.{self.config.name}"

    @property
    def down(self) -> str:
        """The down projection's name in a module; an own layer norm before it is the first of the sequence."""
        return f"adapter_down.{int(self.config.norm_before)}"

    def _modules(self) -> Iterator[Module]:
        config = self.config
        for layer, path in enumerate(self._layers):
            if layer in config.leave_out or not (config.attention or config.mlp):
                continue
            width = config.width(layer, self.hidden_size)
            if width is None:
                self.problems.append(f"config.reduction_factor: has no number for layer {layer} and no default.")
                continue
            if (phm := config.phm) is not None and (self.hidden_size % phm.dim or width % phm.dim):
                self.problems.append(f"config.phm_dim: {phm.dim} does not divide both {self.hidden_size} and {width}.")
                continue
            if config.attention:
                yield Module(f"{path}.attention_adapters.adapters.{config.name}", "attention", layer, width)
            if config.mlp:
                yield Module(f"{path}.output_adapters.adapters.{config.name}", "mlp", layer, width)

    def _module_shapes(self, module: Module) -> Shapes:
        config, hidden = self.config, self.hidden_size
        if config.norm_before:  # the library saves one layer norm under two names
            yield from _norm("adapter_norm_before", hidden)
            yield from _norm("adapter_down.0", hidden)
        if config.norm_after:
            yield from _norm("adapter_norm_after", hidden)
        if isinstance(config.scaling, str):
            yield "scaling", (hidden if config.scaling == "channel" else 1,)
        for part, into, out in ((self.down, hidden, module.width), ("adapter_up", module.width, hidden)):
            shapes = _linear(into, out) if config.phm is None else self._phm_shapes(into, out)
            yield from ((f"{part}.{name}", shape) for name, shape in shapes)

    def _phm_shapes(self, into: int, out: int) -> Shapes:
        phm = self.config.phm
        assert phm is not None, "asked for Compacter only"
        if not phm.shared:
            yield from self._factors("W", into, out)
        if not phm.shared_rule:
            yield from self._rule()
        if phm.bias:
            yield "b", (out,)

    def _shared_shapes(self) -> Shapes:
        phm = self.config.phm
        if phm is None or not self.modules:
            return
        if phm.shared:
            width = self.modules[0].width
            yield from self._factors("W_down", self.hidden_size, width)
            yield from self._factors("W_up", width, self.hidden_size)
        if phm.shared_rule:
            yield from self._rule()

    def _factors(self, name: str, into: int, out: int) -> Shapes:
        phm = self.config.phm
        assert phm is not None, "asked for Compacter only"
        if phm.rank is None:
            yield name, (phm.dim, into // phm.dim, out // phm.dim)
        else:
            yield f"{name}_left", (phm.dim, into // phm.dim, phm.rank)
            yield f"{name}_right", (phm.dim, phm.rank, out // phm.dim)

    def _rule(self) -> Shapes:
        phm = self.config.phm
        assert phm is not None, "asked for Compacter only"
        if phm.factorized_rule:
            yield "phm_rule_left", (phm.dim, phm.dim, 1)
            yield "phm_rule_right", (phm.dim, 1, phm.dim)
        else:
            yield "phm_rule", (phm.dim, phm.dim, phm.dim)

    def _invertible_shapes(self) -> Shapes:
        factor = self.config.invertible
        if factor is None:
            return
        first = self.hidden_size // 2
        second = self.hidden_size - first
        for net, into, out in (("F", second, first), ("G", first, second)):
            width = int(into // factor)
            for number, shape in ((0, (into, width)), (2, (width, out))):
                yield from ((f"{net}.{number}.{name}", sizes) for name, sizes in _linear(*shape))


def _linear(into: int, out: int) -> Shapes:
    yield "weight", (out, into)
    yield "bias", (out,)


def _norm(name: str, size: int) -> Shapes:
    yield f"{name}.weight", (size,)
    yield f"{name}.bias", (size,)
