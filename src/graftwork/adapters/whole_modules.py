"""Whole modules that an adapter brings along: other weights for embedding, head, class scores or a linear layer.

PEFT's `modules_to_save`; also the embeddings that PEFT stores beside an adapter when the vocabulary was changed.
https://huggingface.co/docs/peft/developer_guides/checkpoint
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graftwork.adapters.checks import entry, shape_problem, value_problem
from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.tensor_entry import TensorEntry

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.serving_form import Part

#: Names of the classification head in transformers' models; the served base has none.
SCORE_NAMES = ("score", "classifier")


@dataclass(frozen=True)
class WholeModule:
    """Weight and bias that take the place of a module's own; `path` is the module's, or one of SCORE_NAMES."""

    path: str
    weight: StoredTensor
    bias: StoredTensor | None = None

    @property
    def tensors(self) -> list[StoredTensor]:
        return [self.weight, *([self.bias] if self.bias is not None else [])]

    def account(self, outline: Outline) -> tuple[list[TensorEntry], list[str]]:
        """The account of its tensors against the base."""
        problems = [problem for tensor in self.tensors if (problem := value_problem_of(tensor))]
        problems = self._shape_problems(outline) or problems
        grows = self._is_vocabulary(outline)
        reason = problems[0] if problems else f"takes the place of {self.path}"
        entries = [
            entry(tensor, used=not problems, reason=reason, module=self.path, part=part,
                  tokens=tensor.shape[0] if grows and part == "weight" and tensor.shape else None)
            for tensor, part in zip(self.tensors, ("weight", "bias"), strict=False)
        ]  # fmt: skip
        return entries, problems

    def parts(self, outline: Outline, dtype: torch.dtype) -> list[Part]:
        """What it does at its site; embeddings with their scale folded in."""
        from graftwork.adapters import vocabulary
        from graftwork.adapters.serving_form import Site
        from graftwork.adapters.stored_weights import weights_of

        if outline.embed is not None and self.path == outline.embed.path:
            return [vocabulary.EmbedWeights(Site("embed"), weights_of(self.weight, dtype, outline.embed.scale))]
        rows = weights_of(self.weight, dtype)
        bias = None if self.bias is None else weights_of(self.bias, dtype)
        if outline.head is not None and self.path == outline.head.path:
            return [vocabulary.HeadWeights(Site("head"), rows, bias)]
        if self.path in SCORE_NAMES:
            return [vocabulary.Score(Site("score"), rows, bias)]
        return [vocabulary.LinearWeights(Site("linear", outline.site_of[self.path]), rows, bias)]

    def _is_vocabulary(self, outline: Outline) -> bool:
        return self.path in {site.path for site in (outline.embed, outline.head) if site is not None}

    def _shape_problems(self, outline: Outline) -> list[str]:
        rows, columns, grows = self._wanted(outline)
        got = self.weight.shape[0] if len(self.weight.shape) == 2 else 0
        if got == 0:
            return [f"{self.weight.name}: shape {list(self.weight.shape)}, but {self.path} needs a matrix with rows."]
        if rows is not None and not (grows and got >= rows):
            what = f"{self.path} of the base"
        else:  # a vocabulary may grow, and a classification head has as many rows as classes
            rows, what = got, f"{self.path} of this width"
        checked = [shape_problem(self.weight, (rows, columns), what)]
        if self.bias is not None:
            checked.append(shape_problem(self.bias, (rows,), what))
        site = next((one for one in (*outline.linears, outline.head) if one and one.path == self.path), None)
        if self.bias is None and isinstance(site, LinearSite) and site.bias:
            checked.append(f"{self.path}: the base's layer has a bias, and the adapter stores none for it.")
        if self.bias is not None and self.path not in SCORE_NAMES and not (site is not None and site.bias):
            checked.append(f"{self.bias.name}: a bias, which the base's {self.path} has not; leave it out.")
        return [problem for problem in checked if problem]

    def _wanted(self, outline: Outline) -> tuple[int | None, int, bool]:
        """Rows (None: any number), columns, and whether there may be more rows."""
        if self._is_vocabulary(outline):
            return outline.vocab_size, outline.hidden_size, True
        if self.path in SCORE_NAMES:
            return None, outline.hidden_size, True
        site = outline.linears[outline.site_of[self.path]]
        return site.out_features, site.in_features, False


def value_problem_of(tensor: StoredTensor) -> str | None:
    """As `value_problem`, for a tensor whose dtype was not checked yet."""
    return value_problem(tensor) if tensor.is_float else None


def vocabulary_problems(entries: Mapping[str, int | None], outline: Outline) -> list[str]:
    """Whether embedding and head know the same tokens; `entries`: rows given for "embed" and for "head"."""
    embed = entries.get("embed") or outline.vocab_size
    head = entries.get("head") or outline.vocab_size
    if head > embed:
        return [
            f"The adapter's {outline.head.path if outline.head else 'head'} has {head} rows, but the embedding has "
            f"{embed}: tokens from {embed} on could be generated and not be read again. Save the embedding as well."
        ]
    return []
