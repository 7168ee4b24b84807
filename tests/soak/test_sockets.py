"""Clients of a real socket that vanish, dawdle and babble: the others' answers are whole, and nothing is held."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from graftwork.client import Client
from graftwork.testing import write_lora
from soak.clients import CHAT, CLIENTS, HELLO, Asked, post
from support.fixtures import Tiny
from support.listening import Listening, listening
from support.scale import soak_seed, times

AT_ONCE = 24
MODELS = ("tiny", "alpha", "beta")
PATIENCE_S = 120.0


@pytest.fixture
def server(tiny: Tiny, tmp_path: Path) -> Iterator[Listening]:
    """With few rows and little memory for keys and values."""
    changes = {"home": tmp_path / "home", "base_name": "tiny", "max_num_seqs": 8, "kv_cache_bytes": 1 << 20}
    with listening(tiny, tiny.settings.model_copy(update=changes)) as made:
        with Client(made.url) as client:
            for seed, name in enumerate(MODELS[1:]):
                client.push(write_lora(tmp_path / name, tiny.outline, seed=seed), name)
        yield made


def texts(server: Listening) -> dict[tuple[str, int], str]:
    """What each model answers, by how many tokens."""
    found = {}
    for model in MODELS:
        for tokens in (1, 20, 80):
            body = {"model": model, "messages": HELLO, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
            answer = httpx.post(f"{server.url}{CHAT}", json=body).json()
            found[model, tokens] = answer["choices"][0]["message"]["content"]
    return found


@pytest.mark.soak
@pytest.mark.timeout(times(300, 6 * 3600))
async def test_however_clients_leave_the_others_are_answered_and_nothing_is_held(server: Listening) -> None:
    seed = soak_seed()
    print(f"GRAFTWORK_SOAK_SEED={seed}")
    draw, known, turns = random.Random(seed), await asyncio.to_thread(texts, server), asyncio.Semaphore(AT_ONCE)
    names, weights = list(CLIENTS), [weight for _, weight in CLIENTS.values()]

    async def one(index: int, name: str, asked: Asked) -> None:
        try:
            await CLIENTS[name][0](asked)
        except BaseException as error:
            error.add_note(f"Client {index}, {name!r}. Again: GRAFTWORK_SOAK_SEED={seed}")
            raise
        finally:
            turns.release()

    async with asyncio.TaskGroup() as group:
        for index in range(times(300, 50_000)):
            await turns.acquire()
            (model, tokens), text = draw.choice(list(known.items()))
            body = {"model": model, "messages": HELLO, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
            asked = Asked(server.port, post(CHAT, body | {"stream": True}), text, random.Random(draw.random()))
            group.create_task(one(index, draw.choices(names, weights)[0], asked))
    await rest(server)


async def rest(server: Listening) -> None:
    """Wait until nothing is held: rows, pages, pins, streams, connections, uploads."""
    deadline = time.monotonic() + PATIENCE_S
    while held := server.held():
        assert time.monotonic() < deadline, held
        await asyncio.sleep(0.01)
    server.engine.check()
