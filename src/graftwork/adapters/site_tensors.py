"""SiteTensors: what an adapter stores for one linear layer, and the account of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graftwork.adapters.checks import (
    NO_EFFECT,
    base_warnings,
    entry,
    shape_problem,
    unmatched_problems,
    value_problem,
)
from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.module_names import find_module
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.targeting import Targets
from graftwork.adapters.tensor_entry import TensorEntry


@dataclass(frozen=True)
class SiteTensors:
    """The tensors of one linear layer by the name of their part; in a damaged file some are missing."""

    path: str
    index: int  # in `outline.linears`
    parts: Mapping[str, StoredTensor]

    def problems(self, shapes: Mapping[str, tuple[int, ...]], why: str) -> list[str]:
        """Where these are not exactly the parts of these shapes, or hold values that cannot be served.

        `why` says what asks for the shapes beside the layer itself.
        """
        found = [f"{self.path}: {part} is missing." for part in shapes if part not in self.parts]
        for part, tensor in self.parts.items():
            if part not in shapes:
                found.append(f"{tensor.name}: by {why} this layer has {', '.join(shapes)}.")
            elif problem := shape_problem(tensor, shapes[part], f"{self.path} by {why}") or value_problem(tensor):
                found.append(problem)
        return found

    def entries(self, found: Finding) -> list[TensorEntry]:
        """The account's lines of these tensors: used, unless there is a problem; the norm stands on the last line."""
        reason = found.problems[0] if found.problems else f"linear site {self.path}"
        last = list(self.parts)[-1]
        return [
            entry(
                tensor, used=not found.problems, reason=reason, module=self.path, part=part, rank=found.rank,
                scale=found.scale, norm=found.norm if part == last else None,
            )
            for part, tensor in self.parts.items()
        ]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What a kind found out about one layer: problems that forbid serving it, and the facts of its delta."""

    problems: Sequence[str] = ()
    rank: int | None = None
    scale: float | None = None
    #: Frobenius norm of the change; None where it is not known without much work. Zero only when nothing changes.
    norm: float | None = None


#: Looks at what is stored for one layer.
LookAtSite = Callable[[SiteTensors, LinearSite], Finding]


def match_sites(
    tensors: Iterable[StoredTensor], parts: Collection[str], outline: Outline
) -> tuple[list[SiteTensors], list[TensorEntry]]:
    """Group tensors named `<module>.<part>`, as PEFT names them, by linear layer; and a line for each that fits none.

    A raw state dict also holds the adapter's name, `<module>.<part>.default`.
    """
    key = re.compile(rf"(?P<module>.+)\.(?P<part>{'|'.join(parts)})(?:\.default)?")
    found: dict[str, dict[str, StoredTensor]] = {}
    unmatched: list[TensorEntry] = []
    for tensor in tensors:
        match = key.fullmatch(tensor.name)
        path = None if match is None else find_module(match["module"], outline.site_of)
        if match is None:
            reason = f"none of {', '.join(parts)} of a linear layer"
        elif path is None:
            reason = f"the base has no linear layer {match['module']}"
        elif match["part"] in found.setdefault(path, {}):
            reason = f"{found[path][match['part']].name} already gives {match['part']} of {path}"
        else:
            found[path][match["part"]] = tensor
            continue
        unmatched.append(entry(tensor, used=False, reason=reason))
    sites = [SiteTensors(path, outline.site_of[path], stored) for path, stored in found.items()]
    return sorted(sites, key=lambda site: site.index), unmatched


def account_sites(
    folder: AdapterFolder,
    outline: Outline,
    fields: ConfigFields,
    targets: Targets,
    tensors: Iterable[StoredTensor],
    parts: Collection[str],
    look: LookAtSite,
) -> tuple[list[TensorEntry], list[str], list[str]]:
    """The account of a kind that acts on linear layers only; `look` is called for each when the config is sound."""
    sites, entries = match_sites(tensors, parts, outline)
    problems = fields.problems() + unmatched_problems([f"{line.name} ({line.reason})" for line in entries])
    if fields.problems():
        unread = Finding(["the config cannot be served"])
        return [*entries, *(line for site in sites for line in site.entries(unread))], problems, []
    problems += targets.problems(outline, [site.path for site in sites])
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows shows in the norm
        findings = [look(site, outline.linears[site.index]) for site in sites]
    for site, found in zip(sites, findings, strict=True):
        entries += site.entries(found)
        problems += found.problems
    warnings = fields.warnings() + base_warnings(folder.config, outline)
    if findings and all(found.norm == 0 for found in findings):
        warnings.append(NO_EFFECT)
    return sorted(entries, key=lambda line: line.name), problems, warnings


def low_rank_finding(
    path: str, a: npt.NDArray[np.float32], b: npt.NDArray[np.float32], rank: int, scale: float | None = None
) -> Finding:
    """The norm of b a, from a [rank, in] and b [out, rank] with the scale in either; a problem where it overflows."""
    grams = a @ a.T, b.T @ b  # [rank, rank], in float32 so that an overflow shows
    norm = float(np.sqrt(abs(np.sum(np.multiply(*grams, dtype=np.float64)))))
    return finding(path, norm, rank, scale)


def finding(path: str, norm: float, rank: int | None = None, scale: float | None = None) -> Finding:
    """What a norm says of a layer without other problems."""
    if np.isfinite(norm):
        return Finding((), rank, scale, norm)
    return Finding([f"{path}: the delta overflows float32; its values are too large to serve."], rank, scale)
