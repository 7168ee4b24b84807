"""Keep-alive: whole answers over connections that stay open, timed where their bytes arrive.

The client shares the machine with the server that it measures, so it is a bare protocol: requests are bytes that were
written before, and nothing of an answer is read but its status and its length.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Reply:
    """One answer, and how long it took from the first byte sent to the last one received."""

    status: int
    body: bytes
    seconds: float


class Lost(Exception):
    """The server closed the connection before its answer was whole."""


class Connection(asyncio.Protocol):
    """One connection, which asks one thing after the other."""

    def __init__(self) -> None:
        self._came = bytearray()
        self._size = -1  # of the whole answer, once its head is there
        self._began = 0.0
        self._waiting: asyncio.Future[Reply] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def to(cls, port: int) -> Self:
        """One that is open."""
        return (await asyncio.get_running_loop().create_connection(cls, HOST, port))[1]

    async def ask(self, request: bytes) -> Reply:
        """The answer to a whole request. Raises Lost."""
        assert self._transport is not None and self._waiting is None, "it is open, and asks one thing at a time"
        self._waiting = asyncio.get_running_loop().create_future()
        self._began = time.perf_counter()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "TCP goes both ways"
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._came += data
        if self._size < 0 and (end := self._came.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._came[:end]).lower()
            self._size = end + 4 + int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0])
        if 0 <= self._size <= len(self._came) and self._waiting is not None:
            seconds = time.perf_counter() - self._began
            status, body = int(self._came[9:12]), bytes(self._came[self._came.find(b"\r\n\r\n") + 4 :])
            waiting, self._waiting, self._size = self._waiting, None, -1
            self._came.clear()
            waiting.set_result(Reply(status, body, seconds))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(Lost("The connection ended before the answer did."))


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def post(path: str, body: dict[str, Any], key: str | None = None) -> bytes:
    """A request with a JSON body."""
    content = json.dumps(body).encode()
    bearer = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n{bearer}Content-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def replies_per_s(port: int, requests: Sequence[bytes], clients: int, count: int) -> float:
    """Answers per second while so many clients ask `count` things between them, each again as soon as it is answered.

    Raises Lost, or AssertionError where an answer is not 200.
    """
    connections = [await Connection.to(port) for _ in range(clients)]
    shared = islice(_around(requests), count)
    try:
        began = time.perf_counter()
        await asyncio.gather(*(_ask_all(one, shared) for one in connections))
        return count / (time.perf_counter() - began)
    finally:
        for one in connections:
            one.close()


async def _ask_all(connection: Connection, shared: Iterator[bytes]) -> None:
    for request in shared:
        reply = await connection.ask(request)
        assert reply.status == 200, reply.body


def _around(requests: Sequence[bytes]) -> Iterator[bytes]:
    while True:
        yield from requests
