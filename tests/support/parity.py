"""PARITY as DESIGN defines it: what our answer may differ from PEFT's, in float32 and in bfloat16."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from graftwork.engine.async_engine import AsyncEngine
from support.engines import Answer, ask, request
from support.oracle import OracleLike


def assert_float32_parity(oracle: OracleLike, prompt: Sequence[int], got: Answer, tolerance: float) -> None:
    """Every greedy token equal, and each one's log-probability within `tolerance`.

    One pass over our own answer tells it: where each of its tokens is the oracle's likeliest after those before it, it
    is the oracle's own answer.
    """
    truth = oracle.logprobs([*prompt, *got.tokens])[len(prompt) - 1 : -1]
    likeliest = truth.max(-1)
    assert got.tokens == likeliest.indices.tolist()
    assert max(abs(a - b) for a, b in zip(got.chosen, likeliest.values.tolist(), strict=True)) <= tolerance


@dataclass(frozen=True)
class _Place:
    """One token of the truth, and how PEFT's and our bfloat16 runs rate it."""

    adapter: str | None
    token: int
    lead: float  #: of the truth's likeliest token over its second
    likeliest: int  #: ours
    theirs: float  #: error of PEFT's log-probability
    ours: float


async def assert_bfloat16_parity(
    engine: AsyncEngine,
    rows: Sequence[tuple[Sequence[int], str | None]],
    oracles: Mapping[str | None, tuple[OracleLike, OracleLike]],
    count: int,
) -> None:
    """Teacher-forced on the float32 oracle's tokens, all rows and all their positions in shared batches.

    Our largest error may be 1.5 times that of PEFT's own bfloat16 runs on the same tokens, plus 0.02; the likeliest
    token is the same wherever the truth's first two lie further apart than twice that.
    """
    made = await asyncio.gather(
        *(_places(engine, prompt, adapter, *oracles[adapter], count) for prompt, adapter in rows)
    )
    places = [place for row in made for place in row]
    limit = 1.5 * max(place.theirs for place in places) + 0.02
    for place in places:
        assert place.ours <= limit, f"{place} is over {limit}"
        assert place.likeliest == place.token or place.lead <= 2 * limit, place


def _continued(exact: OracleLike, prompt: list[int], draft: list[int]) -> tuple[list[int], Tensor]:
    """The prompt with the oracle's own greedy tokens, and its log-probabilities [tokens of the draft, vocab] of each.

    One pass tells how far a draft is right; only from where it is not, the oracle goes token by token.
    """
    start = len(prompt) - 1
    truth = exact.logprobs([*prompt, *draft])[start:-1]
    likeliest = truth.argmax(-1).tolist()
    wrong = [place for place, token in enumerate(draft) if token != likeliest[place]]
    if not wrong:
        return [*prompt, *draft], truth
    tokens = [*prompt, *draft[: wrong[0]], likeliest[wrong[0]]]
    tokens += exact.greedy(tokens, len(prompt) + len(draft) - len(tokens))[0]
    return tokens, exact.logprobs(tokens)[start:-1]


async def _places(
    engine: AsyncEngine, prompt: Sequence[int], adapter: str | None, exact: OracleLike, rounded: OracleLike, count: int
) -> list[_Place]:
    start = len(prompt) - 1
    draft = await ask(engine, request(tuple(prompt), adapter, max_tokens=count))
    tokens, truth = _continued(exact, list(prompt), draft.tokens)
    theirs = [run[start:-1] for run in rounded.spread(tokens)]
    asked = [request(tuple(tokens[: start + 1 + n]), adapter, max_tokens=1, logprobs=20) for n in range(count)]
    places = []
    for n, answer in enumerate(await asyncio.gather(*(ask(engine, one) for one in asked))):
        token = tokens[start + 1 + n]
        ours = {top.token_id: top.logprob for top in answer.logprobs[0].top}
        assert token in ours, f"{adapter}: the truth's token {n} is not among our twenty likeliest"
        first, second = truth[n].topk(2).values.tolist()
        true = float(truth[n, token])
        places.append(
            _Place(
                adapter,
                token,
                first - second,
                answer.tokens[0],
                max(abs(float(run[n, token]) - true) for run in theirs),
                abs(ours[token] - true),
            )
        )
    return places
