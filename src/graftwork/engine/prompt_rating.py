"""Prompt rating: how likely the model finds each token of a prompt, read from its logits chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch
from torch import Tensor

from graftwork.engine.chunk import Chunk
from graftwork.engine.request import TokenLogprob
from graftwork.engine.sampler import LEAST_LOGPROB, RowFailure, likeliest, not_finite
from graftwork.engine.sequence import Sequence
from graftwork.engine.text import Text

#: Rows of logits that are made float32 log-probabilities at a time.
_ROWS = 32

#: What one chunk adds to its row's ratings, by the row's id.
Ratings = dict[str, list[TokenLogprob] | RowFailure]


def rate_prompts(chunks: Rows[Chunk], logits: Tensor) -> tuple[Tensor, Ratings]:
    """Rate the prompt tokens of a step; give back the rows of logits that are left, which are sampled from.

    Args:
        chunks: of the step, not yet counted as computed.
        logits: `[rows, vocab]` of the chunks' `logits`; returned as it is when nothing is rated.

    A row of logits with a NaN or +inf, or without a finite logit, gives a RowFailure for its own prompt.
    """
    if not any(chunk.rates for chunk in chunks):
        return logits, {}
    ratings: Ratings = {}
    sampled: list[int] = []
    row = 0
    for chunk in chunks:
        if rates := chunk.rates:
            rated = chunk.sequence.tokens[rates.start + 1 : rates.stop + 1]
            count = chunk.sequence.alternatives or 0
            ratings[chunk.sequence.id] = _rate(logits[row : row + len(rates)], rated, count, chunk.sequence.text)
        row += len(chunk.logits)
        if chunk.samples:
            sampled.append(row - 1)
    return logits[torch.tensor(sampled, dtype=torch.int64, device=logits.device)], ratings


def take_ratings(ratings: Ratings, chunks: Rows[Chunk]) -> dict[str, tuple[Sequence, RowFailure]]:
    """Give every row its ratings; those whose prompt could not be rated, by id."""
    failed: dict[str, tuple[Sequence, RowFailure]] = {}
    if ratings:
        for chunk in chunks:
            rated = ratings.get(chunk.sequence.id, [])
            if isinstance(rated, RowFailure):
                failed[chunk.sequence.id] = (chunk.sequence, rated)
            else:
                chunk.sequence.rated += rated
    return failed


def _rate(logits: Tensor, tokens: list[int], count: int, text: Text) -> list[TokenLogprob] | RowFailure:
    """Each of `tokens` by the row of logits `[tokens, vocab]` before it, with the `count` likeliest."""
    found: list[TokenLogprob] = []
    for start in range(0, len(tokens), _ROWS):
        some, part = logits[start : start + _ROWS], tokens[start : start + _ROWS]
        for row in (~some.amax(-1).isfinite()).nonzero()[:, 0].tolist():
            return RowFailure(not_finite(some[row]))
        logprobs = some.float().log_softmax(-1)  # [tokens, vocab]
        own, ranks = _own(logprobs, part)
        for token, logprob, rank, top in zip(part, own, ranks, likeliest(logprobs, [count] * len(part)), strict=True):
            found.append(text.token_logprob(token, logprob, top, rank))
    return found


def _own(logprobs: Tensor, tokens: list[int]) -> tuple[list[float], list[int]]:
    """Log-probability and rank, from 1, of one token in each row; of equals the lowest id comes first.

    A token that only an adapter knows may lie beyond the logits, which it has no part in: it cannot be said.
    """
    width = logprobs.shape[1]
    ids = torch.tensor(tokens, device=logprobs.device)[:, None]  # [tokens, 1]
    own = logprobs.gather(-1, ids.clamp(max=width - 1)).masked_fill_(ids >= width, -torch.inf)
    equal_before = (logprobs == own) & (torch.arange(width, device=logprobs.device) < ids)
    ranks = 1 + ((logprobs > own) | equal_before).sum(-1)
    return own[:, 0].clamp_min_(LEAST_LOGPROB).tolist(), ranks.tolist()
