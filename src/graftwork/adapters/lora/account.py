"""The account of a LoRA's modules: every part fits the base and the config, or is a problem by name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from graftwork.adapters.checks import above_max_rank, entry, shape_problem, value_problem
from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.lora.config import LoraConfig
from graftwork.adapters.lora.tensors import ModuleTensors, Role
from graftwork.adapters.lora.trained_tokens import tokens_of
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.adapters.whole_modules import SCORE_NAMES, WholeModule

#: The two halves of a pair, at a linear layer and at an embedding.
LINEAR_PAIR: tuple[Role, Role] = ("lora_A", "lora_B")
EMBEDDING_PAIR: tuple[Role, Role] = ("embedding_A", "embedding_B")


@dataclass
class ModuleAccount:
    """Collects the lines and the problems of one module."""

    module: ModuleTensors
    config: LoraConfig
    outline: Outline
    max_rank: int
    targeted: bool
    entries: list[TensorEntry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._left = dict(self.module.parts)
        if self.targeted:
            self._pair()
        if self.module.path in tokens_of(self.config, self.outline):
            self._tokens()
        self._whole()
        self._bias()
        for part, tensor in self._left.items():
            why = self._why_not(part)
            self._line(tensor, None, used=False, reason=why)
            # Of pairs that no target covers one problem tells, for all modules at once.
            if self.targeted or part not in (*LINEAR_PAIR, *EMBEDDING_PAIR):
                self.problems.append(f"{tensor.name}: {why}")

    # -- pairs -----------------------------------------------------------------------------------------------------

    def _pair(self) -> None:
        path, config = self.module.path, self.config
        width_in, width_out = self._widths()
        at_embedding = self._is_embedding
        names = EMBEDDING_PAIR if at_embedding else LINEAR_PAIR
        rank, scale = config.rank_of(path), config.scale_of(path)
        wanted: dict[Role, tuple[int, ...]] = {names[0]: (rank, width_in), names[1]: (width_out, rank)}
        if config.use_dora:
            wanted["magnitude"] = (width_out,)
        if config.lora_bias and not at_embedding:
            wanted["lora_B.bias"] = (width_out,)
        found = {part: self._left.pop(part) for part in wanted if part in self._left}
        problems = [
            f"{path}: {part} is missing; both halves of a pair are needed." for part in names if part not in found
        ]
        what = f"the base's {path} ({width_in} → {width_out}) with rank {rank} of the config"
        problems += [one for part, tensor in found.items() if (one := shape_problem(tensor, wanted[part], what))]
        if rank > self.max_rank:
            problems.append(f"{path}: {above_max_rank(rank, self.max_rank)}")
        problems = problems or [one for tensor in found.values() if (one := value_problem(tensor))]
        norm = None
        if not problems:
            norm, problems = delta_norm(found[names[0]], found[names[1]], scale)
        self.problems += problems
        reason = problems[0] if problems else f"low-rank change of {path}"
        for part, tensor in found.items():
            facts = {"norm": norm} if part == names[1] else {}
            self._line(tensor, part, used=not problems, reason=reason, rank=rank, scale=scale, **facts)

    # -- everything else -------------------------------------------------------------------------------------------

    def _tokens(self) -> None:
        ids = tokens_of(self.config, self.outline)[self.module.path]
        tensor = self._left.pop("tokens", None)
        if tensor is None:
            self.problems.append(
                f"{self.module.path}: trainable_token_indices names {len(ids)} tokens without weights."
            )
            return
        what = f"trainable_token_indices with {len(ids)} tokens"
        problem = shape_problem(tensor, (len(ids), self.outline.hidden_size), what) or value_problem(tensor)
        if ids and max(ids) >= self.outline.vocab_size:
            problem = (
                f"trainable_token_indices: {max(ids)} is no token of the base, which has {self.outline.vocab_size}."
            )
        self.problems += [problem] if problem else []
        self._line(tensor, "tokens", used=not problem, reason=problem or f"{len(ids)} tokens of {self.module.path}")

    def _whole(self) -> None:
        whole = whole_module(self.module, self.config, self.outline)
        if whole is None:
            return
        self._left = {part: tensor for part, tensor in self._left.items() if tensor not in whole.tensors}
        entries, problems = whole.account(self.outline)
        self.entries += entries
        self.problems += problems

    def _bias(self) -> None:
        if not self._has_bias() or not (
            self.config.bias == "all" or (self.config.bias == "lora_only" and self.targeted)
        ):
            return
        tensor = self._left.pop("bias", None)
        if tensor is None:
            return
        problem = shape_problem(tensor, (self._widths()[1],), f"the bias of the base's {self.module.path}")
        problem = problem or value_problem(tensor)
        self.problems += [problem] if problem else []
        self._line(
            tensor, "bias", used=not problem, reason=problem or f"takes the place of the bias of {self.module.path}"
        )

    def _why_not(self, part: Role) -> str:
        path = self.module.path
        if part in (*LINEAR_PAIR, *EMBEDDING_PAIR):
            other = "an embedding" if self._is_embedding else "a linear layer"
            return (
                f"{path} is {other}, which takes the other kind of pair."
                if self.targeted
                else f"target_modules does not cover {path}, which has weights."
            )
        return {
            "magnitude": "a DoRA magnitude, but use_dora is not true.",
            "lora_B.bias": "a bias of lora_B, but lora_bias is not true.",
            "tokens": "trainable tokens, but trainable_token_indices does not name this module.",
            "weight": f"a whole weight of {path}, but modules_to_save does not name it.",
            "base": f"a weight of the base's {path}, which is frozen.",
            "original": f"of the base's {path}, which is frozen.",
            "bias": f"a bias, which the base's {path} has not, or which bias={self.config.bias!r} leaves out.",
        }[part]

    @property
    def _is_embedding(self) -> bool:
        return self.outline.embed is not None and self.module.path == self.outline.embed.path

    def _has_bias(self) -> bool:
        sites = (*self.outline.linears, *([self.outline.head] if self.outline.head else []))
        return any(site.bias for site in sites if site.path == self.module.path)

    def _widths(self) -> tuple[int, int]:
        """Input and output width of the module."""
        if self._is_embedding:
            return self.outline.vocab_size, self.outline.hidden_size
        if self.outline.head is not None and self.module.path == self.outline.head.path:
            return self.outline.hidden_size, self.outline.vocab_size
        site = self.outline.linears[self.outline.site_of[self.module.path]]
        return site.in_features, site.out_features

    def _line(self, tensor: StoredTensor, part: str | None, *, used: bool, reason: str, **facts: object) -> None:
        self.entries.append(entry(tensor, used=used, reason=reason, module=self.module.path, part=part, **facts))


def whole_module(module: ModuleTensors, config: LoraConfig, outline: Outline) -> WholeModule | None:
    """The weights that take the whole module's place, if the adapter has some.

    Those that `modules_to_save` names; and those that PEFT adds for an embedding or head whose size was changed, or
    which has a pair. PEFT loads the latter into the base itself, and so do they act here: on both sides where embedding
    and head are tied.
    """
    path, parts = module.path, module.parts
    named = path in SCORE_NAMES or config.saves(path)
    ends = {site.path for site in (outline.embed, outline.head) if site is not None}
    weight = parts.get("weight") if named or path in ends else None
    weight = weight if weight is not None else (parts.get("base") if path in ends else None)
    if weight is None:
        return None
    return WholeModule(path, weight, parts.get("bias"))


def delta_norm(a: StoredTensor, b: StoredTensor, scale: float) -> tuple[float | None, list[str]]:
    """‖scale · B·A‖ through the two [rank, rank] Gram matrices, and what overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        gram_a = _gram(a.float32())
        gram_b = _gram(np.ascontiguousarray((b.float32() * np.float32(scale)).T))
        square = float(np.sum(gram_a * gram_b))
    if not np.isfinite(square):
        return None, [f"{b.name}: the delta of this pair overflows float32; its values are too large to serve."]
    return float(np.sqrt(max(square, 0.0))), []


def _gram(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    product = rows @ rows.T  # float32, so that an overflow shows as infinity
    return product.astype(np.float64)
