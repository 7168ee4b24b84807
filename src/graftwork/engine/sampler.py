"""Sampler: chooses the next token of every row of a batch, each by its own parameters alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from graftwork.engine.peaks import peaks
from graftwork.engine.row_grammar import Mask
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.token_source import draw_tokens, uniform_bits

#: Reported for anything less likely, and for minus infinity, which JSON lacks; the number is OpenAI's.
LEAST_LOGPROB = -9999.0

_NOTHING_LEFT = "No token can be chosen: the grammar allows none but what min_tokens, or the model itself, rules out."


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One row to sample: how, after which tokens, and with which luck.

    `seed` is the request's own, or a random one drawn when the request was made; with the number of output
    tokens it fixes the draw, so a row that is preempted and recomputed goes on as it would have.
    `prompt_token_ids` is read only for `repetition_penalty`. Tokens in `barred` cannot be chosen this time, nor those
    that `mask` leaves out.
    """

    params: SamplingParams
    seed: int
    prompt_token_ids: Sequence[int]
    output_token_ids: Sequence[int]
    barred: Collection[int] = ()
    mask: Mask | None = None

    @property
    def as_it_is(self) -> bool:
        """Whether the choice is the argmax of the raw logits."""
        params = self.params
        return params.greedy and not (params.penalised or params.logit_bias or self.barred or self.mask is not None)


@dataclass(frozen=True, slots=True)
class Sampled:
    """The chosen token; `logprob` and `top` (id, logprob; likeliest first) only where asked for."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RowFailure:
    """Why no token could be chosen for this row; the other rows are as they would have been without it."""

    reason: str


class Sampler:
    """Stateless: the same logits and rows give the same tokens, in any order and any company.

    In vLLM's order: `logit_bias`, what is barred and the mask; `repetition_penalty` over prompt and output, then
    `frequency_penalty` and `presence_penalty` over the output only; then temperature, min_p, top_k, top_p.
    Log-probabilities are the float32 log-softmax of the *raw* logits, before all of these. Minus infinity marks
    a token that cannot be chosen.

    Example:
        >>> row = SamplingRow(SamplingParams(temperature=0), 0, prompt_token_ids=(), output_token_ids=())
        >>> Sampler().sample(torch.tensor([[0.0, 2.0, 1.0]]), [row])
        [Sampled(token_id=1, logprob=None, top=())]
    """

    def sample(self, logits: torch.Tensor, rows: Sequence[SamplingRow]) -> list[Sampled | RowFailure]:
        """One result per row, in order.

        Args:
            logits: `[rows, vocab]`, float32 or the serving dtype, on any device; not changed.
            rows: one per row of `logits`.

        A row with a NaN or +inf, or without a finite logit, or whose mask leaves nothing that can be chosen, gives a
        RowFailure; nothing is raised.
        """
        assert logits.ndim == 2 and logits.shape[0] == len(rows), "one row of logits for each SamplingRow"
        if not rows:
            return []
        finite, chosen = peaks(logits)
        failed = {row: RowFailure(not_finite(logits[row])) for row in range(len(rows)) if not finite[row]}
        for row, token_id in _choose_anew(logits, rows, finite).items():
            if token_id is None:
                failed[row], finite[row] = RowFailure(_NOTHING_LEFT), False
            else:
                chosen[row] = token_id
        records = _logprob_records(logits, rows, finite, chosen)
        return [failed.get(row) or records.get(row) or Sampled(chosen[row]) for row in range(len(rows))]


def _choose_anew(logits: torch.Tensor, rows: Sequence[SamplingRow], finite: list[bool]) -> dict[int, int | None]:
    """Tokens of the rows whose choice is not simply the argmax of the raw logits; None where none is left."""
    picked = [index for index, row in enumerate(rows) if finite[index] and not row.as_it_is]
    if not picked:
        return {}
    some = logits if len(picked) == len(rows) else logits[torch.tensor(picked, device=logits.device)]
    own = some.to(torch.float32, copy=True)  # [picked, vocab]
    _bias(own, [rows[index] for index in picked])
    empty = _mask(own, [rows[index] for index in picked])
    for place, index in enumerate(picked):
        if rows[index].params.penalised:
            _penalise(own[place], rows[index])
    chosen: dict[int, int | None] = {}
    if greedy := [place for place, index in enumerate(picked) if rows[index].params.greedy]:
        best = own[torch.tensor(greedy, device=own.device)].max(-1).indices.tolist()
        chosen |= {picked[place]: token_id for place, token_id in zip(greedy, best, strict=True)}
    if drawn := [place for place, index in enumerate(picked) if not rows[index].params.greedy]:
        tempered = own if len(drawn) == len(picked) else own[torch.tensor(drawn, device=own.device)]
        lucky = [rows[picked[place]] for place in drawn]
        bits = [uniform_bits(row.seed, len(row.output_token_ids)) for row in lucky]
        tokens = draw_tokens(tempered, [row.params for row in lucky], bits)
        chosen |= {picked[place]: token_id for place, token_id in zip(drawn, tokens, strict=True)}
    return chosen | {picked[place]: None for place in empty}


def _bias(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> None:
    """Add every row's `logit_bias` to `logits` `[rows, vocab]`, and minus infinity where it is barred; in place.

    A token beyond the logits, which only another row's adapter widens, cannot be chosen anyway.
    """
    added = [(place, *pair) for place, row in enumerate(rows) for pair in row.params.logit_bias]
    added += [(place, token_id, -math.inf) for place, row in enumerate(rows) for token_id in row.barred]
    added = [one for one in added if one[1] < logits.shape[1]]
    if added:
        places, tokens, values = zip(*added, strict=True)
        where = (torch.tensor(places, device=logits.device), torch.tensor(tokens, device=logits.device))
        logits.index_put_(where, torch.tensor(values, dtype=logits.dtype, device=logits.device), accumulate=True)


def _mask(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> list[int]:
    """Put minus infinity in `logits` `[rows, vocab]` wherever a row's mask says no; in place.

    Returns the rows in which no token is left; they are set to zeros, so that a token can be drawn and thrown away.
    """
    masked = [(place, row.mask) for place, row in enumerate(rows) if row.mask is not None]
    if not masked:
        return []
    size = logits.shape[1]
    forbidden = np.ones((len(masked), size), np.bool_)  # also what only another row's adapter adds
    for index, (_, mask) in enumerate(masked):
        allowed = np.unpackbits(mask.view(np.uint8), count=min(size, 32 * len(mask)), bitorder="little")
        forbidden[index, : len(allowed)] = allowed == 0
    places = torch.tensor([place for place, _ in masked], device=logits.device)
    left = logits[places].masked_fill_(torch.from_numpy(forbidden).to(logits.device), -math.inf)
    empty = left.amax(-1) == -math.inf
    logits[places] = left.masked_fill_(empty[:, None], 0.0)
    return [int(place) for place in places[empty].tolist()]


def _penalise(logits: torch.Tensor, row: SamplingRow) -> None:
    """Change `logits` `[vocab]` in place, at the tokens so far only; one beyond them cannot be chosen anyway."""
    params = row.params
    if params.repetition_penalty != 1.0:
        seen = np.unique(np.array([*row.prompt_token_ids, *row.output_token_ids], dtype=np.int64))
        where = torch.from_numpy(seen[seen < len(logits)]).to(logits.device)
        now = logits[where]
        logits[where] = torch.where(now > 0, now / params.repetition_penalty, now * params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        said, counts = np.unique(np.array(row.output_token_ids, dtype=np.int64), return_counts=True)
        lost = counts.astype(np.float32) * params.frequency_penalty + params.presence_penalty
        where = torch.from_numpy(said).to(logits.device)
        logits[where] -= torch.from_numpy(lost).to(logits)


def _logprob_records(
    logits: torch.Tensor, rows: Sequence[SamplingRow], finite: list[bool], chosen: list[int]
) -> dict[int, Sampled]:
    asked = [index for index, row in enumerate(rows) if finite[index] and row.params.logprobs is not None]
    if not asked:
        return {}
    logprobs = logits[torch.tensor(asked, device=logits.device)].float().log_softmax(-1)  # [asked, vocab]
    tokens = torch.tensor([[chosen[index]] for index in asked], device=logits.device)
    own = logprobs.gather(-1, tokens)[:, 0].clamp_min_(LEAST_LOGPROB).tolist()
    tops = likeliest(logprobs, [rows[index].params.logprobs or 0 for index in asked])
    return {index: Sampled(chosen[index], logprob, top) for index, logprob, top in zip(asked, own, tops, strict=True)}


def likeliest(logprobs: torch.Tensor, counts: list[int]) -> list[tuple[tuple[int, float], ...]]:
    """The `counts[row]` likeliest of each row, likeliest first; of equals, common in bf16, the lowest ids."""
    most = min(max(counts), logprobs.shape[-1])
    if not most:
        return [()] * len(counts)
    least = logprobs.topk(most, dim=-1).values[:, -1:]  # [rows, 1]
    found = (logprobs >= least).nonzero()  # [at least rows x most, 2], by row and id: all that tie for the last place
    values = logprobs[found[:, 0], found[:, 1]].clamp_min_(LEAST_LOGPROB).tolist()
    best: list[list[tuple[int, float]]] = [[] for _ in counts]
    for (row, token_id), value in zip(found.tolist(), values, strict=True):
        best[row].append((token_id, value))
    for row, count in enumerate(counts):
        best[row] = sorted(best[row], key=lambda pair: -pair[1])[:count]  # a stable sort: ids stay in order
    return [tuple(pairs) for pairs in best]


def not_finite(logits: torch.Tensor) -> str:
    """In words, for one row `[vocab]` that failed."""
    bad = int((~logits.isfinite()).sum())
    return f"The model's output is not finite: {bad} of {logits.shape[-1]} logits are NaN or infinite."
