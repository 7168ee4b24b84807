"""CLIENTS: how clients of a real socket behave, well and badly; a new way is one entry."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "Hello there"}]
DIGEST = "sha256:" + "1" * 64


@dataclass(frozen=True)
class Asked:
    """One request as bytes, what its answer must say, and the draws of whoever sends it."""

    port: int
    request: bytes
    text: str
    draw: random.Random = field(default_factory=random.Random)

    async def connect(self, receive_bytes: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        made = socket.socket()
        if receive_bytes:  # so that the server meets a full window soon
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.port))
        return await asyncio.open_connection(sock=made, limit=1 << 12 if receive_bytes else 1 << 16)

    async def pause(self) -> None:
        await asyncio.sleep(self.draw.choice((0.0, 0.0, 0.001, 0.01)))


Client = Callable[[Asked], Awaitable[None]]


def post(path: str, body: dict[str, Any], method: str = "POST", media: str = "application/json") -> bytes:
    """A whole request, after which the server closes the connection."""
    data = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + data


async def patient(asked: Asked) -> None:
    """Reads the whole answer."""
    reader, writer = await asked.connect()
    writer.write(asked.request)
    _compare(asked, await reader.read(-1))
    await _close(writer)


async def slow(asked: Asked) -> None:
    """Reads the whole answer a little at a time; nobody else may wait for it."""
    reader, writer = await asked.connect(receive_bytes=2048)
    writer.write(asked.request)
    received = b""
    while more := await reader.read(asked.draw.randrange(1, 2000)):
        received += more
        await asked.pause()
    _compare(asked, received)
    await _close(writer)


async def vanishing(asked: Asked) -> None:
    """Leaves somewhere in the answer, in order or with a reset."""
    reader, writer = await asked.connect()
    writer.write(asked.request)
    for _ in range(asked.draw.randrange(8)):
        await reader.read(asked.draw.randrange(1, 400))
    await asked.pause()
    await _leave(asked, writer)


async def half(asked: Asked) -> None:
    """Sends a part of its request only, and leaves."""
    _, writer = await asked.connect()
    writer.write(asked.request[: asked.draw.randrange(len(asked.request))])
    await asked.pause()
    await _leave(asked, writer)


async def half_an_upload(asked: Asked) -> None:
    """Sends a part of a file only, and leaves."""
    _, writer = await asked.connect()
    head = f"PUT /api/v1/blobs/{DIGEST} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
    writer.write(head.encode() + b"Content-Length: 3000000\r\n\r\n" + bytes(asked.draw.randrange(1_500_000)))
    await asked.pause()
    await _leave(asked, writer)


async def babbling(asked: Asked) -> None:
    """Says what is no request."""
    reader, writer = await asked.connect()
    writer.write(asked.draw.randbytes(200) + b"\r\n\r\n")
    received = await reader.read(-1)
    assert not received or received.startswith(b"HTTP/1.1 400"), received[:100]
    await _close(writer)


CLIENTS: dict[str, tuple[Client, float]] = {
    "patient": (patient, 4),
    "slow": (slow, 3),
    "vanishing": (vanishing, 6),
    "half": (half, 4),
    "half an upload": (half_an_upload, 2),
    "babbling": (babbling, 1),
}


def _compare(asked: Asked, received: bytes) -> None:
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), received[:300]
    events = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
    assert events.pop() == b"[DONE]", "the stream is whole"
    deltas = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    assert "".join(delta.get("content", "") for delta in deltas) == asked.text


async def _leave(asked: Asked, writer: asyncio.StreamWriter) -> None:
    if asked.draw.random() < 0.5:  # with a reset instead of an end
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:  # the server was quicker
        return
