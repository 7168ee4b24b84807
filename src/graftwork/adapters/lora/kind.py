"""Lora: accounts for a LoRA folder and turns it into its serving form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.lora.config import LoraConfig, read_lora_config
from graftwork.adapters.lora.targets import targeted_sites, unservable_targets
from graftwork.adapters.lora.tensors import Pair, match_tensors
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.errors import Refused

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

_SHOWN = 5


class Lora:
    """The kind `LORA`: low-rank pairs on linear layers, any mix of ranks, alpha, rsLoRA and patterns."""

    name = "lora"
    features: Mapping[str, Support] = MappingProxyType({"low-rank pairs": "served"})

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config, problems = read_lora_config(folder.config)
        pairs, unmatched = match_tensors(folder.tensors, outline)
        entries = [_entry(item.tensor, used=False, reason=item.reason) for item in unmatched]
        problems += _unmatched_problems([f"{item.tensor.name} ({item.reason})" for item in unmatched])
        if config is None:
            return [*entries, *_unread(pairs)], problems, []
        warnings = list(config.warnings) + _base_warnings(folder, outline)
        problems += _target_problems(config, outline, pairs)
        for pair in pairs:
            made, wrong = _account_pair(pair, config, outline.linears[pair.site], max_rank)
            entries += made
            problems += wrong
        norms = [entry.norm for entry in entries if entry.norm is not None]
        if norms and not any(norms) and not problems:
            warnings.append("This adapter has no effect: every delta is zero.")
        return sorted(entries, key=lambda entry: entry.name), problems, warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        import torch

        from graftwork.adapters.serving_form import LowRankSlice, ServingForm

        config, problems = read_lora_config(folder.config)
        if config is None:
            raise Refused("This adapter cannot be served.", problems=problems)
        slices = []
        for pair in match_tensors(folder.tensors, outline)[0]:
            assert pair.a is not None and pair.b is not None, "the account refuses half a pair"
            scaled = pair.b.float32() * np.float32(config.scale_of(pair.module))
            a = torch.from_numpy(pair.a.float32()).to(dtype)
            b = torch.from_numpy(np.ascontiguousarray(scaled.T)).to(dtype)
            slices.append(LowRankSlice(pair.site, a.contiguous(), b))
        return ServingForm(tuple(slices))


def _account_pair(
    pair: Pair, config: LoraConfig, site: LinearSite, max_rank: int
) -> tuple[list[TensorEntry], list[str]]:
    rank, scale = config.rank_of(pair.module), config.scale_of(pair.module)
    problems = _shape_problems(pair, site, rank)
    if rank > max_rank:
        problems.append(f"{pair.module}: rank {rank} is above this server's max_rank {max_rank}; raise it to serve.")
    norm = None
    if not problems:
        assert pair.a is not None and pair.b is not None, "a missing half is a problem"
        norm, problems = _delta_norm(pair.a, pair.b, scale)
    reason = problems[0] if problems else f"linear site {pair.module}"
    entries = [
        _entry(half, used=not problems, reason=reason, module=pair.module, part=part, rank=rank, scale=scale,
               norm=norm if part == "lora_B" else None)
        for half, part in ((pair.a, "lora_A"), (pair.b, "lora_B"))
        if half is not None
    ]  # fmt: skip
    return entries, problems


def _shape_problems(pair: Pair, site: LinearSite, rank: int) -> list[str]:
    problems = []
    wanted = (("lora_A", pair.a, (rank, site.in_features)), ("lora_B", pair.b, (site.out_features, rank)))
    for part, half, shape in wanted:
        if half is None:
            problems.append(f"{pair.module}: {part} is missing; both halves of a pair are needed.")
        elif not half.is_float:
            problems.append(f"{half.name}: dtype {half.dtype} is not a floating-point weight.")
        elif half.shape != shape:
            problems.append(
                f"{half.name}: shape {list(half.shape)}, but the base's {pair.module} "
                f"({site.in_features} → {site.out_features}) and rank {rank} of the config need {list(shape)}."
            )
    return problems


def _delta_norm(a: StoredTensor, b: StoredTensor, scale: float) -> tuple[float | None, list[str]]:
    """‖scale · B·A‖ through the two [rank, rank] Gram matrices, and what is not finite."""
    wide_a, wide_b = a.float32(), b.float32()
    for tensor, values in ((a, wide_a), (b, wide_b)):
        if not np.isfinite(values).all():
            bad = int(values.size - np.isfinite(values).sum())
            return None, [f"{tensor.name}: {bad} of {values.size} values are NaN, infinite or beyond float32."]
    with np.errstate(over="ignore", invalid="ignore"):
        gram_a = _gram(wide_a)
        gram_b = _gram(np.ascontiguousarray((wide_b * np.float32(scale)).T))
        square = float(np.sum(gram_a * gram_b))
    if not np.isfinite(square):
        return None, [f"{b.name}: the delta of this pair overflows float32; its values are too large to serve."]
    return float(np.sqrt(max(square, 0.0))), []


def _gram(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    product = rows @ rows.T  # float32, so that an overflow shows as infinity
    return product.astype(np.float64)


def _entry(tensor: StoredTensor, *, used: bool, reason: str, **more: object) -> TensorEntry:
    return TensorEntry(tensor.name, tensor.shape, tensor.dtype, tensor.nbytes, used, reason, **more)  # type: ignore[arg-type]


def _unread(pairs: list[Pair]) -> list[TensorEntry]:
    halves = [half for pair in pairs for half in (pair.a, pair.b) if half is not None]
    return [_entry(half, used=False, reason="the config cannot be served") for half in halves]


def _unmatched_problems(names: list[str]) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"{len(names)} tensors are not used by this base: {'; '.join(names[:_SHOWN])}{more}."]


def _target_problems(config: LoraConfig, outline: Outline, pairs: list[Pair]) -> list[str]:
    targets = targeted_sites(config, outline)
    if targets is None:
        return ["target_modules: missing or null; it must say which modules the adapter changes."]
    stored = {pair.module for pair in pairs}
    problems = []
    if others := unservable_targets(config, outline):
        problems.append(f"target_modules names {', '.join(others[:_SHOWN])}, on which no LoRA is served here yet.")
    if extra := sorted(stored - targets):
        problems.append(f"target_modules does not cover modules that have weights: {', '.join(extra[:_SHOWN])}.")
    if missing := sorted(targets - stored):
        problems.append(f"target_modules names modules without weights: {', '.join(missing[:_SHOWN])}.")
    return problems


def _base_warnings(folder: AdapterFolder, outline: Outline) -> list[str]:
    claimed = folder.config.get("base_model_name_or_path")
    if not isinstance(claimed, str) or not claimed:
        return ["base_model_name_or_path is empty; the shapes fit this base."]
    if claimed.lower().split("/")[-1] not in {outline.base, outline.source.lower().split("/")[-1]}:
        return [f"base_model_name_or_path is {claimed!r}, served on {outline.base!r}; the shapes fit."]
    return []
