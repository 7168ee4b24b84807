"""SiteTensors: what an adapter stores for one linear layer, and the account of all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from graftwork.adapters.checks import base_warnings, entry, unmatched_problems
from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.module_names import find_module
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.targeting import Targets
from graftwork.adapters.tensor_entry import TensorEntry

NO_EFFECT = "This adapter has no effect: every delta is zero."


@dataclass(frozen=True)
class SiteTensors:
    """The tensors of one linear layer by the name of their part; in a damaged file some are missing."""

    path: str
    index: int  # in `outline.linears`
    parts: Mapping[str, StoredTensor]

    def missing(self, parts: Iterable[str]) -> list[str]:
        """One problem for each part that is not there."""
        return [f"{self.path}: {part} is missing." for part in parts if part not in self.parts]

    def entries(self, problems: Sequence[str], **facts: float | int | None) -> list[TensorEntry]:
        """The account's lines of these tensors: used, unless there is a problem; `facts` as TensorEntry has them."""
        reason = problems[0] if problems else f"linear site {self.path}"
        return [
            entry(tensor, used=not problems, reason=reason, module=self.path, part=part, **facts)
            for part, tensor in self.parts.items()
        ]


#: Accounts for one layer: its lines, and what is wrong with it.
AccountSite = Callable[[SiteTensors, LinearSite], tuple[list[TensorEntry], list[str]]]


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
    one: AccountSite,
) -> tuple[list[TensorEntry], list[str], list[str]]:
    """The account of a kind that acts on linear layers only; `one` is called for each when the config is sound."""
    sites, entries = match_sites(tensors, parts, outline)
    problems = fields.problems() + unmatched_problems([f"{line.name} ({line.reason})" for line in entries])
    if fields.problems():
        unread = [line for site in sites for line in site.entries(["the config cannot be served"])]
        return [*entries, *unread], problems, []
    problems += targets.problems(outline, [site.path for site in sites])
    for site in sites:
        lines, wrong = one(site, outline.linears[site.index])
        entries += lines
        problems += wrong
    warnings = fields.warnings() + base_warnings(folder.config, outline)
    norms = [line.norm for line in entries if line.norm is not None]
    if norms and not any(norms) and not problems:
        warnings.append(NO_EFFECT)
    return sorted(entries, key=lambda line: line.name), problems, warnings
