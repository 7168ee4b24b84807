"""Keep-alive: answers are read whole, however their bytes come, and one that breaks off is an error."""

from __future__ import annotations

import asyncio

import pytest

from keep_alive import Connection, Lost, post, replies_per_s

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
ANSWERS = ([OK[:20], OK[20:40], OK[40:]], [b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"], [OK[:-1]])


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One answer after the other, each in its pieces; then no more."""
    try:
        for parts in ANSWERS:
            await reader.readuntil(b"{}")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0.01)
    except asyncio.IncompleteReadError:
        pass  # who asked is gone
    finally:
        writer.close()


async def test_answers_are_read_whole_however_their_bytes_come() -> None:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        connection = await Connection.to(server.sockets[0].getsockname()[1])
        first, second = await connection.ask(post("/", {})), await connection.ask(post("/", {}))
        assert (first.status, first.body, second.status, second.body) == (200, b"hello", 404, b"")
        assert first.seconds > 0.02
        with pytest.raises(Lost):
            await connection.ask(post("/", {}))


async def test_a_rate_is_of_good_answers_only() -> None:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert 0 < await replies_per_s(port, [post("/", {})], clients=2, count=2) < 100
        with pytest.raises(AssertionError):
            await replies_per_s(port, [post("/", {})], clients=1, count=2)
