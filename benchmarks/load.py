"""Load: a closed loop of clients, each asking again as soon as it is answered, and what was measured.

The same loop drives a server over HTTP (`OverHttp`, any OpenAI-compatible one) and an engine in this process
(`in_process.py`), so that what lies between them is HTTP alone. The HTTP client is a bare protocol that keeps bytes
and times and reads them after the answer: it shares the machine with the server, and a token costs it microseconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from graftwork.errors import GraftworkError

#: What is shown of a list of times.
SHARES = (50, 95, 99)


@dataclass(frozen=True)
class Load:
    """One round: `concurrency` clients make `requests` requests between them; `vocab` bounds the prompts' token ids."""

    concurrency: int
    requests: int
    prompt_tokens: int
    output_tokens: int
    vocab: int


@dataclass(frozen=True)
class Ask:
    """One request, for greedy tokens past any end of text: `model` is an adapter's or the base's name."""

    model: str
    prompt: tuple[int, ...]
    output_tokens: int

    def body(self) -> dict[str, Any]:
        """As a streamed completion of the OpenAI API."""
        return {
            "model": self.model,
            "prompt": self.prompt,
            "max_tokens": self.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


@dataclass(frozen=True)
class Answered:
    """When each piece of an answer came (`time.perf_counter`), and how many tokens it had."""

    times_s: Sequence[float]
    tokens: int


class Failed(Exception):
    """A request was not answered, or not to its end."""


#: Answers one request, or raises `Failed`, a GraftworkError or an OSError.
Door = Callable[[Ask], Awaitable[Answered]]


@dataclass
class Measured:
    """Times of one round, in seconds."""

    wall_s: float = 0.0
    tokens: int = 0
    errors: int = 0
    ttft_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s


async def drive(
    door: Door, load: Load, names: Sequence[str], seed: int, popularity: Sequence[float] | None = None,
    *, in_turn: bool = False,
) -> Measured:  # fmt: skip
    """One round of `asks`."""
    measured, shared = Measured(), asks(load, names, seed, popularity, in_turn=in_turn)
    began = time.perf_counter()
    await asyncio.gather(*(_client(door, shared, measured) for _ in range(load.concurrency)))
    measured.wall_s = time.perf_counter() - began
    return measured


def asks(
    load: Load, names: Sequence[str], seed: int, popularity: Sequence[float] | None = None, *, in_turn: bool = False
) -> Iterator[Ask]:
    """The requests of a round, every prompt another; the same seed gives the same ones.

    Names are drawn uniformly, or in proportion to `popularity`, or come `in_turn`, one after the other.
    """
    draw = random.Random(seed)
    for index in range(load.requests):
        name = names[index % len(names)] if in_turn else draw.choices(names, popularity)[0]
        prompt = tuple(draw.randrange(min(100, load.vocab // 2), load.vocab) for _ in range(load.prompt_tokens))
        yield Ask(name, prompt, load.output_tokens)


async def _client(door: Door, shared: Iterator[Ask], measured: Measured) -> None:
    for ask in shared:
        began = time.perf_counter()
        try:
            answered = await door(ask)
        except (Failed, GraftworkError, OSError):
            measured.errors += 1
            continue
        measured.tokens += answered.tokens
        measured.ttft_s += [at - began for at in answered.times_s[:1]]
        measured.gaps_s += [later - earlier for earlier, later in pairwise(answered.times_s)]


class OverHttp:
    """The door of a server: POST `path` at `url`, and read the server-sent events that come back.

    `body` makes the JSON of a request, for servers that ask for an adapter in another way.
    """

    def __init__(
        self, url: str, path: str = "/v1/completions", body: Callable[[Ask], dict[str, Any]] = Ask.body
    ) -> None:
        where = urlsplit(url)
        self._host, self._port, self._path, self._body = where.hostname or "127.0.0.1", where.port or 80, path, body

    async def __call__(self, ask: Ask) -> Answered:
        body = json.dumps(self._body(ask)).encode()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        _, stream = await asyncio.get_running_loop().create_connection(
            lambda: _Stream(head.encode() + body), self._host, self._port
        )
        await stream.ended
        return stream.answered()


class _Stream(asyncio.Protocol):
    """One request and its answer, up to the end of the connection."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._bytes = bytearray()
        self._came: list[tuple[int, float]] = []  # bytes so far, and when
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport), "TCP is written to"
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._bytes += data
        self._came.append((len(self._bytes), time.perf_counter()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def answered(self) -> Answered:
        if not self._bytes.startswith(b"HTTP/1.1 200 "):
            raise Failed(self._bytes[:1000].decode(errors="replace"))
        times, tokens, end, came = [], None, 0, iter(self._came)
        size, when = next(came)
        for line in bytes(self._bytes).splitlines(keepends=True):
            end += len(line)
            if not line.startswith(b"data: {"):
                continue
            while size < end:
                size, when = next(came)
            event = json.loads(line.removeprefix(b"data: "))
            if "error" in event:
                raise Failed(line.decode(errors="replace"))
            tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
            if event.get("choices"):
                times.append(when)
        if tokens is None:
            raise Failed("The answer ended without its usage.")
        return Answered(times, tokens)


def summary(rounds: Sequence[Measured]) -> dict[str, Any]:
    """Of several rounds: the median throughput, and the quantiles of all their times."""
    return {
        "output_tokens_per_s": round(statistics.median(one.tokens_per_s for one in rounds), 1),
        "ttft_ms": quantiles([value for one in rounds for value in one.ttft_s]),
        "inter_token_ms": quantiles([value for one in rounds for value in one.gaps_s]),
        "errors": sum(one.errors for one in rounds),
    }


def ratio(rounds: Sequence[Measured], others: Sequence[Measured]) -> float:
    """The median of the pairs' ratios of throughput: neighbours in time, so that it holds on a noisy machine."""
    pairs = zip(rounds, others, strict=True)
    return round(statistics.median(one.tokens_per_s / other.tokens_per_s for one, other in pairs), 3)


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Seconds in, milliseconds out: `{"p50": …, "p95": …, "p99": …}`."""
    ordered = sorted(values) or [float("nan")]
    return {
        f"p{share}": round(1e3 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1) for share in SHARES
    }
