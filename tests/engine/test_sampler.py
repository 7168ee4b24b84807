"""The sampler's promises: greedy, penalties, log-probabilities, failures by row, independent rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.row_grammar import Mask
from graftwork.engine.sampler import LEAST_LOGPROB, RowFailure, Sampled, Sampler, SamplingRow
from graftwork.engine.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0)
VOCAB = 500


def row(
    params: SamplingParams = GREEDY,
    *,
    seed: int = 0,
    prompt: tuple[int, ...] = (),
    output: tuple[int, ...] = (),
    barred: frozenset[int] = frozenset(),
) -> SamplingRow:
    return SamplingRow(params, seed, prompt, output, barred)


def random_logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def tokens(results: list[Sampled | RowFailure]) -> list[int]:
    return [result.token_id for result in results if isinstance(result, Sampled)]


def only(logits: list[float], one: SamplingRow) -> Sampled:
    result = Sampler().sample(torch.tensor([logits]), [one])[0]
    assert isinstance(result, Sampled)
    return result


MATES = [
    row(),
    row(SamplingParams(), seed=5),
    row(SamplingParams(temperature=0.8, top_p=0.9), seed=6, output=(1, 2)),
    row(SamplingParams(temperature=0, repetition_penalty=1.3), prompt=(4, 5), output=(6,)),
    row(SamplingParams(top_k=40, presence_penalty=0.5, logprobs=3), seed=7, output=(3, 3, 9)),
    row(SamplingParams(temperature=0, logprobs=0)),
    row(SamplingParams(min_p=0.05, frequency_penalty=-1.0), seed=8, output=(11,)),
    row(SamplingParams(top_k=1)),
    row(SamplingParams(temperature=0, logit_bias=((3, 4.0), (499, -100.0)))),
    row(SamplingParams(logit_bias=((2, 100.0), (VOCAB, 100.0)), presence_penalty=1.0), seed=9, output=(2,)),
    row(SamplingParams(temperature=0.7), seed=10, barred=frozenset({1, 2, VOCAB + 7})),
]


def test_no_rows_give_no_results() -> None:
    assert Sampler().sample(torch.empty(0, VOCAB), []) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [3, 1000, 4099])
def test_greedy_takes_the_lowest_of_equals(dtype: torch.dtype, vocab: int) -> None:
    logits = torch.zeros(2, vocab, dtype=dtype)
    logits[1, [1, vocab // 2, vocab - 1]] = 2.0
    assert tokens(Sampler().sample(logits, [row(), row()])) == [0, 1]


def test_penalised_greedy_takes_the_lowest_of_equals() -> None:
    assert only([1.0, 2.0, 2.0, 4.0], row(SamplingParams(temperature=0, repetition_penalty=2.0), output=(3,))) == (
        Sampled(1)
    )


def test_repetition_penalty_passes_over_a_token_that_only_the_adapters_embedding_knows() -> None:
    params = SamplingParams(temperature=0, repetition_penalty=2.0)
    assert only([3.0, 2.0, 1.0], row(params, prompt=(0, 3, 900))) == Sampled(1)


def test_repetition_penalty_counts_prompt_and_output_and_looks_at_the_sign() -> None:
    params = SamplingParams(temperature=0, repetition_penalty=2.0)
    assert only([3.0, 2.0, 1.0], row(params, prompt=(0,))).token_id == 1
    assert only([3.0, 2.0, 1.0], row(params, prompt=(0, 0), output=(1,))).token_id == 0  # 1.5, 1.0, 1.0
    assert only([-1.0, -1.5, -9.0], row(params, output=(0,))).token_id == 1


def test_presence_penalty_counts_once_and_frequency_penalty_each_time_over_the_output_only() -> None:
    presence = SamplingParams(temperature=0, presence_penalty=1.0)
    frequency = SamplingParams(temperature=0, frequency_penalty=1.0)
    assert only([2.5, 1.0], row(presence, output=(0, 0, 0))).token_id == 0
    assert only([2.5, 1.0], row(frequency, output=(0, 0, 0))).token_id == 1
    assert only([1.5, 1.0], row(frequency, prompt=(0, 0, 0))).token_id == 0
    assert only([1.5, 1.0], row(presence)).token_id == 0


def test_negative_penalties_favour_what_was_said() -> None:
    assert only([1.5, 1.0], row(SamplingParams(temperature=0, frequency_penalty=-0.4), output=(1, 1))).token_id == 1


def test_logit_bias_moves_greedy_and_drawn_choices_before_the_penalties() -> None:
    biased = SamplingParams(temperature=0, logit_bias=((0, -100), (2, 1.5)))
    assert only([3.0, 2.0, 1.0], row(biased)).token_id == 2
    assert only([3.0, 2.0, 1.0], row(replace(biased, temperature=1.0, logit_bias=((1, 100.0),)))).token_id == 1
    doubled = replace(biased, logit_bias=((1, -3.0),), repetition_penalty=2.0)  # -1 · 2 < -1.5; unbiased 2 / 2 > -1.5
    assert only([-1.5, 2.0, -9.0], row(doubled, output=(1,))).token_id == 0


def test_logit_bias_is_not_in_the_log_probabilities() -> None:
    plain = only([3.0, 2.0, 1.0], row(SamplingParams(temperature=0, logprobs=3)))
    biased = only([3.0, 2.0, 1.0], row(SamplingParams(temperature=0, logprobs=3, logit_bias=((1, 50.0),))))
    assert (biased.token_id, biased.top) == (1, plain.top)
    assert biased.logprob == plain.top[1][1]


def test_barred_tokens_are_never_chosen() -> None:
    assert only([3.0, 2.0, 1.0], row(barred=frozenset({0}))).token_id == 1
    draws = {
        only([9.0, 2.0, 1.0], row(SamplingParams(), seed=seed, barred=frozenset({0}))).token_id for seed in range(9)
    }
    assert 0 not in draws


BIASES = st.dictionaries(st.integers(0, 40), st.floats(-100, 100, width=32), max_size=6).map(lambda d: tuple(d.items()))


@given(
    biases=st.lists(BIASES, min_size=1, max_size=6),
    temperatures=st.lists(st.sampled_from([0.0, 0.7, 1.5]), min_size=6, max_size=6),
    seed=st.integers(0, 1000),
)
def test_biased_rows_are_the_same_alone_in_any_company_and_when_added_by_hand(
    biases: list[tuple[tuple[int, float], ...]], temperatures: list[float], seed: int
) -> None:
    params = [SamplingParams(temperature=t, logit_bias=bias) for t, bias in zip(temperatures, biases, strict=False)]
    rows = [row(one, seed=seed + place) for place, one in enumerate(params)]
    logits = torch.randn(len(rows), 32, generator=torch.Generator().manual_seed(seed))
    together = Sampler().sample(logits, rows)
    assert together == [Sampler().sample(logits[n : n + 1], [one])[0] for n, one in enumerate(rows)]
    assert together[::-1] == Sampler().sample(logits.flip(0), rows[::-1])
    by_hand = logits.clone()
    for place, one in enumerate(params):
        for token_id, bias in one.logit_bias:
            if token_id < 32:
                by_hand[place, token_id] += bias
    plain = [row(replace(one, logit_bias=()), seed=seed + place) for place, one in enumerate(params)]
    assert tokens(together) == tokens(Sampler().sample(by_hand, plain))


def test_logits_are_left_as_they_were() -> None:
    logits = random_logits(len(MATES))
    before = logits.clone()
    Sampler().sample(logits, MATES)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_row_is_the_same_alone_and_in_any_batch(dtype: torch.dtype) -> None:
    logits = random_logits(len(MATES)).to(dtype)
    together = Sampler().sample(logits, MATES)
    alone = [Sampler().sample(logits[n : n + 1], [mate])[0] for n, mate in enumerate(MATES)]
    shifted = Sampler().sample(logits.roll(3, 0), [*MATES[-3:], *MATES[:-3]])
    assert together == alone == [*shifted[3:], *shifted[:3]]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("victim", range(len(MATES)))
def test_row_that_is_not_finite_fails_alone(bad: float, victim: int) -> None:
    logits = random_logits(len(MATES))
    expected = Sampler().sample(logits, MATES)
    logits[victim, 123] = bad
    results = Sampler().sample(logits, MATES)
    failure = results.pop(victim)
    expected.pop(victim)
    assert isinstance(failure, RowFailure)
    assert f"1 of {VOCAB}" in failure.reason
    assert results == expected


def test_row_without_any_possible_token_fails_and_one_with_impossible_tokens_does_not() -> None:
    logits = torch.full((2, 4), -torch.inf)
    logits[1, 2] = -5.0
    results = Sampler().sample(logits, [row(SamplingParams()), row(SamplingParams())])
    assert isinstance(results[0], RowFailure)
    assert results[1] == Sampled(2)


def test_seed_and_position_fix_the_draw() -> None:
    logits = torch.zeros(1, VOCAB)  # every token equally likely: the draw decides alone
    params = SamplingParams()

    def draw(seed: int, output: tuple[int, ...]) -> list[int]:
        return tokens(Sampler().sample(logits, [row(params, seed=seed, output=output)]))

    assert draw(1, (4, 5)) == draw(1, (9, 9))
    assert len({draw(1, (0,) * position)[0] for position in range(20)}) > 15
    assert len({draw(seed, ())[0] for seed in range(20)}) > 15


def test_logprobs_are_those_of_the_raw_logits() -> None:
    logits = random_logits(1)
    params = SamplingParams(temperature=0.3, top_k=7, presence_penalty=2.0, logprobs=4)
    result = Sampler().sample(logits, [row(params, output=(1, 2, 3))])[0]
    assert isinstance(result, Sampled)
    expected = logits[0].log_softmax(-1)
    assert result.logprob == expected[result.token_id].item()
    best = expected.topk(4)
    assert result.top == tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))


def test_each_row_gets_as_many_alternatives_as_it_asked_for() -> None:
    params = [SamplingParams(temperature=0, logprobs=n) for n in (None, 0, 1, 5)]
    results = Sampler().sample(random_logits(4), [row(one) for one in params])
    got = [(one.logprob is not None, len(one.top)) for one in results if isinstance(one, Sampled)]
    assert got == [(False, 0), (True, 0), (True, 1), (True, 5)]


def test_alternatives_that_tie_come_lowest_id_first_and_greedy_leads_them() -> None:
    result = only([1.0, 5.0, 5.0, 5.0, 0.0], row(SamplingParams(temperature=0, logprobs=2)))
    assert result.token_id == 1
    assert [token_id for token_id, _ in result.top] == [1, 2]


def test_small_vocabulary_gives_fewer_alternatives_and_impossible_ones_a_finite_number() -> None:
    result = only([0.0, -torch.inf, 1.0], row(SamplingParams(temperature=0, logprobs=5)))
    assert [token_id for token_id, _ in result.top] == [2, 0, 1]
    assert result.top[2][1] == LEAST_LOGPROB


def masked(*allowed: int, size: int = VOCAB) -> Mask:
    bits = np.zeros(-(-size // 32) * 32, np.uint8)
    bits[list(allowed)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(), SamplingParams(temperature=0.5, top_p=0.5, top_k=3)])
def test_only_what_the_mask_has_is_chosen_and_mates_do_not_notice(params: SamplingParams) -> None:
    logits = random_logits(len(MATES) + 2)
    free = Sampler().sample(logits[: len(MATES)], MATES)
    narrow = SamplingRow(params, 3, (), (), mask=masked(7, 400))
    shorter = SamplingRow(params, 3, (), (), mask=masked(5, size=40))  # of a row whose adapter adds no tokens
    both = Sampler().sample(logits, [*MATES, narrow, shorter])
    assert both[: len(MATES)] == free
    assert tokens(both[-2:])[0] in (7, 400) and tokens(both[-2:])[1] == 5


def test_a_mask_that_leaves_nothing_fails_its_row_alone() -> None:
    logits = random_logits(3)
    logits[1, 9] = -math.inf
    rows = [row(), SamplingRow(SamplingParams(), 1, (), (), mask=masked(9)), row(SamplingParams(), seed=2)]
    results = Sampler().sample(logits, rows)
    assert isinstance(results[1], RowFailure) and "No token can be chosen" in results[1].reason
    assert [results[0], results[2]] == Sampler().sample(logits[[0, 2]], [rows[0], rows[2]])
    barred = SamplingRow(GREEDY, 1, (), (), frozenset({3}), masked(3))
    assert isinstance(Sampler().sample(logits[:1], [barred])[0], RowFailure)
