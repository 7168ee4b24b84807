"""One bench per base for all contracts of adapter kinds."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator

import pytest

from contracts.bench import Bench, bench_key
from contracts.kinds import KindCase

Benches = Callable[[KindCase], Bench]


@pytest.fixture(scope="session")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benches]:
    made: dict[str, Bench] = {}

    def of(case: KindCase) -> Bench:
        key = bench_key(case)
        if key not in made:
            made[key] = Bench(tmp_path_factory.mktemp("bench"), case.base)
        return made[key]

    yield of
    for bench in made.values():
        asyncio.run(bench.close())


@pytest.fixture
def bench(case: KindCase, benches: Benches) -> Iterator[Bench]:
    """The bench of a test's case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield benches(case)
