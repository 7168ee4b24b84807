"""The contract of an adapter kind, run on every kind in the table and every feature that it says it serves."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from contracts.bench import PROMPTS, Bench, prompt_for
from contracts.kinds import KindCase, all_cases
from graftwork.adapters.kinds import all_kinds
from graftwork.errors import Refused
from support.engines import Answer, ask, ask_all, prompt_of, request, settled
from support.parity import assert_bfloat16_parity, assert_float32_parity
from support.tiny import ALL_LINEARS

CASES = all_cases()
#: What has no text to compare: held to its library by `tests/engine/test_classify.py`.
PROVEN_ELSEWHERE = {("LORA", "modules_to_save: classification head")}
EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=str)
#: By the library that saved them.
WEIGHTS = ("adapter_model.safetensors", "adapter.safetensors")


def test_every_served_feature_has_a_case_and_no_other() -> None:
    served = {(key, f) for key, kind in all_kinds().items() for f, state in kind.features.items() if state == "served"}
    assert {(case.kind, case.feature) for case in CASES} | PROVEN_ELSEWHERE == served
    assert len({case.name for case in CASES}) == len(CASES)


@EVERY_CASE
def test_every_tensor_is_used(case: KindCase, bench: Bench) -> None:
    account = bench.account(bench.adapter(case))
    assert account.ok, account.problems
    assert not account.unused and account.tensors and not any("no effect" in warning for warning in account.warnings)
    assert account.bytes == sum(entry.bytes for entry in account.tensors)


@EVERY_CASE
async def test_parity_alone(case: KindCase, bench: Bench) -> None:
    bench.adapter(case)
    for seed, length in (PROMPTS[0], PROMPTS[-1]):
        prompt = prompt_for(case, seed, length)
        answer = await ask(await bench.engine(), request(prompt, case.name))
        assert_float32_parity(bench.oracle(case), prompt, answer, case.tolerance)
        assert answer.prompt_tokens == len(prompt)


@EVERY_CASE
async def test_it_changes_the_answer(case: KindCase, bench: Bench) -> None:
    for prompt in (prompt_for(case, *one) for one in PROMPTS[1:4]):
        with_it, without = (bench.oracle(one).logprobs(list(prompt))[-1] for one in (case, None))
        assert not torch.equal(with_it, without), "an adapter that changes nothing proves nothing"


@EVERY_CASE
async def test_parity_beside_the_base_and_others_of_every_kind(case: KindCase, bench: Bench) -> None:
    others = [other for other in CASES if other.base == case.base and other.name != case.name]
    mates = others[CASES.index(case) % max(1, len(others)) :][:3]
    plain = replace(case, prompt=None)
    rows: list[KindCase | str | None] = [case, None, "a1", case, *mates, None, case]
    asked, checks = [], []
    for number, row in enumerate(rows):
        named = row if isinstance(row, KindCase) else plain
        prompt = prompt_for(named, *PROMPTS[number % len(PROMPTS)])
        if isinstance(row, KindCase):
            bench.adapter(row)
        asked.append(request(prompt, row.name if isinstance(row, KindCase) else row))
        checks.append(
            (prompt, bench.plain() if row == "a1" else bench.oracle(row if isinstance(row, KindCase) else None))
        )
    engine = await bench.engine()
    for (prompt, oracle), answer in zip(checks, await ask_all(engine, asked), strict=True):
        assert_float32_parity(oracle, prompt, answer, case.tolerance)
    assert await engine.weights_digest() == engine.loaded_digest == bench.tiny.outline.weights_digest


@EVERY_CASE
async def test_every_token_of_a_prompt_is_rated_as_the_library_does(case: KindCase, bench: Bench) -> None:
    bench.adapter(case)
    prompts = [prompt_for(case, seed, length) for seed, length in enumerate((1, 40, 100))]
    rows = [(prompt, name) for prompt in prompts for name in (case.name, None)]
    engine = await bench.engine()
    asked = [request(prompt, name, echo=True, max_tokens=0) for prompt, name in rows]
    for (prompt, name), answer in zip(rows, await ask_all(engine, asked), strict=True):
        truth = bench.oracle(case if name else None).logprobs(list(prompt))
        want = [float(truth[place, token]) for place, token in enumerate(prompt[1:])]
        assert [one.token_id for one in answer.logprobs] == list(prompt)
        assert answer.chosen == pytest.approx(want, abs=case.tolerance)


@EVERY_CASE
async def test_bfloat16_is_as_close_to_the_truth_as_the_library_itself(case: KindCase, bench: Bench) -> None:
    bench.adapter(case)
    rows = [(prompt_for(case, *one), case.name) for one in PROMPTS[1:4]] + [(prompt_for(case, *PROMPTS[1]), None)]
    oracles: dict[str | None, Any] = {
        name: (bench.oracle(one), bench.oracle(one, torch.bfloat16)) for name, one in ((case.name, case), (None, None))
    }
    await assert_bfloat16_parity(await bench.engine("bfloat16"), rows, oracles, count=6)


@pytest.mark.parametrize("case", [case for case in CASES if "architecture" not in case.base], ids=str)
async def test_in_deterministic_mode_the_bits_are_those_of_the_row_alone(case: KindCase, bench: Bench) -> None:
    others = [other for other in CASES if other.base == case.base and other.name != case.name]
    mates = others[CASES.index(case) % max(1, len(others)) :][:3]
    for one in (case, *mates):
        bench.adapter(one)
    company = [(prompt_for(mate, *PROMPTS[1]), mate.name) for mate in mates] + [(prompt_of(1, 70), "a1")]
    # An engine's step has 64 tokens, so that company cuts the longer prompt elsewhere.
    rows = [
        partial(request, prompt_for(case, *PROMPTS[2]), case.name, temperature=0.8, seed=5, max_tokens=6),
        partial(request, prompt_for(case, *PROMPTS[4]), case.name, logprobs=3, prompt_logprobs=1, max_tokens=4),
    ]
    engine = await bench.engine(deterministic=True)
    alone = [await ask(engine, row()) for row in rows]
    together = await ask_all(engine, [*(request(*one, max_tokens=5) for one in company), *(row() for row in rows)])
    assert together[len(company) :] == alone


Tensors = dict[str, Any]


def _drop_one(tensors: Tensors, name: str) -> None:
    del tensors[name]


def _add_a_row(tensors: Tensors, name: str) -> None:
    tensors[name] = np.concatenate([tensors[name], tensors[name][:1]])


def _not_a_number(tensors: Tensors, name: str) -> None:
    tensors[name] = tensors[name].copy()
    tensors[name].flat[0] = np.nan


def _whole_numbers(tensors: Tensors, name: str) -> None:
    tensors[name] = tensors[name].astype(np.int32)


def _unknown_name(tensors: Tensors, name: str) -> None:
    tensors[f"{name}.mystery"] = tensors[name]


def _one_of_each_part(names: Iterable[str], turn: int) -> list[str]:
    """Tensors of every part that a module has, each of another module; other ones every turn."""
    by_part: dict[tuple[str, ...], list[str]] = {}
    for name in sorted(names):
        by_part.setdefault(tuple(word for word in name.split(".") if word not in _PLACES), []).append(name)
    return [same[(7 * turn + 3 * number) % len(same)] for number, same in enumerate(by_part.values())]


#: Words of a tensor's name that say where in the base it belongs, and not what it is there.
_PLACES = {*ALL_LINEARS, "self_attn", "mlp", "qkv_proj", "gate_up_proj", *map(str, range(8))}
#: Words of a tensor's name that would be in any message.
_NOT_TELLING = {"base_model", "model", "weight", "layers", "default"}
DAMAGES: tuple[Callable[[Tensors, str], None], ...] = (
    _drop_one,
    _add_a_row,
    _not_a_number,
    _whole_numbers,
    _unknown_name,
)


@EVERY_CASE
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_damage_of_any_tensor_is_refused_by_its_name(
    case: KindCase, bench: Bench, damage: Callable[[Tensors, str], None], tmp_path: Path
) -> None:
    weights = next((name for name in WEIGHTS if (bench.adapter(case) / name).exists()), None)
    if weights is None:
        pytest.skip("this kind's library writes no safetensors")
    whole = load_file(bench.adapter(case) / weights)
    for number, name in enumerate(_one_of_each_part(whole, DAMAGES.index(damage))):
        if damage is not _not_a_number and any(word in name for word in case.optional):
            continue
        if damage is _add_a_row and any(word in name for word in case.may_grow):
            continue
        folder = Path(shutil.copytree(bench.adapter(case), tmp_path / str(number)))
        tensors = dict(whole)
        damage(tensors, name)
        save_file(tensors, folder / weights)
        account = bench.account(folder)
        assert not account.ok and account.problems, (name, damage.__name__)
        words = [word for word in name.split(".") if word not in _NOT_TELLING and not word.isdigit()]
        assert any(word in problem for problem in account.problems for word in words), account.problems


@EVERY_CASE
async def test_a_refused_load_leaves_everything_as_it_was(case: KindCase, bench: Bench) -> None:
    whole, name = bench.adapter(case), f"{case.name}-cut"
    broken = Path(shutil.copytree(whole, bench.root / name))
    for file in broken.iterdir():
        if file.suffix in (".safetensors", ".bin", ".pt"):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    prompt, engine = prompt_for(case, *PROMPTS[2]), await bench.engine()
    good, base = await ask_all(engine, [request(prompt, one, max_tokens=6) for one in ("a1", None)])
    before = engine.stats()
    outcomes = await asyncio.gather(
        *(ask(engine, request(prompt, asked, max_tokens=6)) for asked in (name, "a1", None, name)),
        return_exceptions=True,
    )
    assert [isinstance(one, Refused) for one in outcomes] == [True, False, False, True]
    for want, got in ((good, outcomes[1]), (base, outcomes[2])):
        assert isinstance(got, Answer) and got.tokens == want.tokens
    await settled(engine)
    after = engine.stats()
    for field in ("adapters_resident", "adapters_pinned", "adapter_bytes", "kv_pages_used", "running", "waiting"):
        assert getattr(after, field) == getattr(before, field)
    shutil.rmtree(broken)
    shutil.copytree(whole, broken)
    repaired = await ask(engine, request(prompt, name, max_tokens=6))
    assert_float32_parity(bench.oracle(case), prompt, repaired, case.tolerance)
