"""The deterministic mode: tokens and log-probabilities are, bit for bit, those of the row alone."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.request import Pooling
from graftwork.errors import Refused
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.engines import Answer, Named, ask, ask_all, prompt_of, reading, request, running
from support.fixtures import Tiny
from support.scale import times
from support.tiny import make_adapter, make_base, save_peft

DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
#: Low-rank slices, vectors, parts at linear layers and at both ends, virtual tokens; others in `tests/contracts`.
OTHER_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "ia3": ("IA3Config", {"target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "vera": ("VeraConfig", {"r": 8, "target_modules": ["q_proj", "down_proj"]}),
    "ends": ("LoraConfig", {"r": 8, "target_modules": ["embed_tokens", "lm_head"]}),
    "prefix": ("PrefixTuningConfig", {"num_virtual_tokens": 5}),
}
ADAPTERS: tuple[Named, ...] = (None, "a1", "a2", *OTHER_KINDS, (("a1", 1.0), ("a2", 0.5)))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A base of few but long sums: below 1,024 elements oneDNN adds up in one order whatever the rows."""
    root = tmp_path_factory.mktemp("wide")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        base = make_base(root / "base", num_hidden_layers=2, intermediate_size=1280, head_dim=128)
        make_adapter(base, root / "a1")
        make_adapter(base, root / "a2", seed=2, r=3, targets=("v_proj", "up_proj", "down_proj"), std=0.2)
        for number, (name, (kind, config)) in enumerate(OTHER_KINDS.items()):
            save_peft(kind, config, base, root / name, std=0.2, seed=number)
    made = Settings(
        home=root / "home", base=str(base), deterministic=True, kv_cache_bytes=1 << 24, adapter_cache_bytes=1 << 23
    )
    return Tiny(root, made, prepare_base(made))


@dataclass(frozen=True)
class Row:
    """One request as a value."""

    seed: int
    length: int
    adapter: Named
    count: int
    drawn: bool
    rated: bool

    async def ask(self, engine: AsyncEngine) -> Answer:
        luck: dict[str, Any] = {"temperature": 0.8, "top_p": 0.9, "seed": self.seed} if self.drawn else {}
        rated: dict[str, Any] = {"logprobs": 3, "prompt_logprobs": 1} if self.rated else {}
        prompt = prompt_of(self.seed, self.length)
        answer = await ask(engine, request(prompt, self.adapter, max_tokens=self.count, **luck, **rated))
        return replace(answer, cached_tokens=0)  # which may differ, and changes no bit


ROWS = st.builds(
    Row,
    seed=st.integers(0, 3),
    length=st.sampled_from((1, 2, 17, 61, 64, 90, 126)),
    adapter=st.sampled_from(ADAPTERS),
    count=st.integers(1, 8),
    drawn=st.booleans(),
    rated=st.booleans(),
)


class Engines:
    """Two engines in one event loop: one for rows alone, one with small steps and little room for rows together."""

    def __init__(self, runner: asyncio.Runner, roomy: AsyncEngine, narrow: AsyncEngine) -> None:
        self._runner, self._roomy, self._narrow = runner, roomy, narrow
        self._alone: dict[Row, Answer] = {}

    def alone(self, row: Row) -> Answer:
        if row not in self._alone:
            self._alone[row] = self._runner.run(row.ask(self._roomy))
        return self._alone[row]

    def together(self, rows: Sequence[Row]) -> list[Answer]:
        async def all_of() -> list[Answer]:
            return list(await asyncio.gather(*(row.ask(self._narrow) for row in rows)))

        return self._runner.run(all_of())

    @property
    def preemptions(self) -> int:
        return self._narrow.stats().preemptions


@contextmanager
def both(wide: Tiny, dtype: str) -> Iterator[Engines]:
    # Prompts are cut wherever time says, and rows are computed again for want of pages.
    narrow: dict[str, Any] = {"max_num_batched_tokens": 64, "inter_token_target_ms": 1.0, "kv_cache_bytes": 1 << 20}
    with asyncio.Runner() as runner:
        engines = [running(wide, dtype=dtype, prefix_caching=False), running(wide, dtype=dtype, **narrow)]
        yield Engines(runner, *(runner.run(one.__aenter__()) for one in engines))
        for one in engines:
            runner.run(one.__aexit__(None, None, None))


@DTYPES
def test_any_rows_together_answer_as_each_alone(wide: Tiny, dtype: str) -> None:
    with both(wide, dtype) as engines:

        @settings(max_examples=times(8, 300))
        @given(st.lists(ROWS, min_size=1, max_size=10))
        def check(rows: list[Row]) -> None:
            for row, got in zip(rows, engines.together(rows), strict=True):
                assert got == engines.alone(row), row

        check()


@DTYPES
def test_a_row_that_is_computed_again_goes_on_as_it_would_have(wide: Tiny, dtype: str) -> None:
    draw = random.Random(3)
    rows = [Row(seed, draw.randrange(40, 64), draw.choice(ADAPTERS), 80, seed % 2 == 0, False) for seed in range(10)]
    with both(wide, dtype) as engines:
        assert engines.together(rows) == [engines.alone(row) for row in rows]
        assert engines.preemptions


async def test_without_the_mode_company_changes_bits(wide: Tiny) -> None:
    """Else the tests of this file prove nothing."""
    rows = [Row(seed, 30, "a1", 8, False, True) for seed in range(3)]
    async with running(wide, dtype="float32", deterministic=False) as engine:
        alone = [await row.ask(engine) for row in rows]
        assert list(await asyncio.gather(*(row.ask(engine) for row in rows))) != alone


async def test_the_order_of_loads_changes_nothing(wide: Tiny) -> None:
    rows = [Row(seed, 90, adapter, 6, False, True) for seed, adapter in enumerate(ADAPTERS)]
    answers = []
    for order in (rows, rows[::-1]):
        async with running(wide) as engine:
            answers.append({row: await row.ask(engine) for row in order})
    assert answers[0] == answers[1]


@pytest.mark.parametrize("pooling", ["mean", "last"])
async def test_vectors(wide: Tiny, pooling: Pooling) -> None:
    asked = [(prompt_of(seed, 40 + 30 * seed), ADAPTERS[seed]) for seed in range(5)]
    async with running(wide, max_num_batched_tokens=64) as engine:
        alone = [(await engine.pool(reading(*one, pooling))).values for one in asked]
        mates = ask_all(engine, [request(prompt_of(seed, 50), "a1", max_tokens=8) for seed in range(3)])
        together = asyncio.gather(*(engine.pool(reading(*one, pooling)) for one in asked))
        _, got = await asyncio.gather(mates, together)
        assert [one.values for one in got] == alone


async def test_a_base_that_our_decoder_does_not_run_is_refused(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base", architecture="Phi3")
    made = Settings(home=tmp_path / "home", base=str(base), deterministic=True, dtype="float32")
    with pytest.raises(Refused, match="does not run Phi3ForCausalLM"):
        async with running(Tiny(tmp_path, made, prepare_base(made))):
            pass
