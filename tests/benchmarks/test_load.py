"""Load: what a client sees is timed as it comes, and what a server breaks off counts as an error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from load import Answered, Ask, Failed, Load, Measured, OverHttp, asks, drive, quantiles, ratio, summary

LOAD = Load(concurrency=2, requests=6, prompt_tokens=4, output_tokens=3, vocab=300)
ASK = Ask("a", (1, 2), 2)


def chunk(**event: object) -> bytes:
    return b"data: " + json.dumps({"id": "1", **event}).encode() + b"\n\n"


PIECE, LAST = chunk(choices=[{"text": "x"}]), chunk(choices=[], usage={"completion_tokens": 2})


@asynccontextmanager
async def answering(*parts: bytes, status: bytes = b"200 OK") -> AsyncIterator[OverHttp]:
    """The door of a server that sends the parts of a body one by one, whatever it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        assert json.loads(await reader.readexactly(size)) == json.loads(json.dumps(ASK.body()))
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield OverHttp(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_pieces_are_timed_as_they_come_and_usage_is_no_piece() -> None:
    async with answering(PIECE, PIECE[:9], PIECE[9:] + LAST, b"data: [DONE]\n\n") as door:
        answered = await door(ASK)
    assert answered.tokens == 2
    assert len(answered.times_s) == 2
    assert answered.times_s[1] - answered.times_s[0] > 0.01, "the second piece is there with its last byte"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (b"503 Busy", b"{}", "503"),
        (b"200 OK", PIECE, "without its usage"),
        (b"200 OK", PIECE + chunk(error={"message": "it broke"}), "it broke"),
    ],
)
async def test_an_answer_that_is_not_whole_has_failed(status: bytes, body: bytes, message: str) -> None:
    async with answering(body, status=status) as door:
        with pytest.raises(Failed, match=message):
            await door(ASK)


def test_one_seed_gives_the_same_requests_whatever_the_names() -> None:
    one, other = (list(asks(LOAD, names, seed=7, popularity=[4, 1])) for names in (["a", "b"], ["c", "d"]))
    assert [ask.prompt for ask in one] == [ask.prompt for ask in other]
    assert [ask.model for ask in one] == [{"c": "a", "d": "b"}[ask.model] for ask in other]
    assert len({ask.prompt for ask in one}) == LOAD.requests
    assert [ask.model for ask in asks(LOAD, ["a", "b"], seed=7, in_turn=True)] == ["a", "b"] * 3


async def test_a_round_counts_tokens_and_errors() -> None:
    async def door(ask: Ask) -> Answered:
        if ask.model == "bad":
            raise Failed("no")
        return Answered([1.0, 2.0], tokens=2)

    measured = await drive(door, LOAD, ["good", "good", "bad"], seed=0, in_turn=True)
    assert (measured.tokens, measured.errors, measured.gaps_s) == (8, 2, [1.0] * 4)
    assert summary([measured])["errors"] == 2


def test_ratio_is_the_median_of_pairs() -> None:
    rounds = [Measured(wall_s=1, tokens=tokens) for tokens in (10, 20, 90)]
    assert ratio(rounds, [Measured(wall_s=1, tokens=10)] * 3) == 2.0
    assert quantiles([0.001 * value for value in range(101)]) == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
