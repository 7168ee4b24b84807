"""Graftwork's own server, as `graftwork serve` starts it, behind what the peers offer."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager

from graftwork.cli.demo_server import running_server
from graftwork.client import Client
from graftwork.settings import Settings
from load import Load
from peers.http_target import HttpTarget
from peers.peer import Workload


@contextmanager
def our_server(work: Workload, settings: Settings) -> Iterator[HttpTarget]:
    """A server with all adapters pushed and loaded; one serves every cell."""
    home = work.scratch / "graftwork"
    home.mkdir()
    with running_server(home, settings.cache, settings.base) as server:
        with Client(server.url) as client:
            while client.ready():
                time.sleep(0.1)
            for name, folder in work.adapters.items():
                client.push(folder, name)
        # The same prompts come once with every peer: with a salt of its own each is computed every time.
        target = HttpTarget(
            server.process.pid, server.url, lambda name: {"model": name, "cache_salt": secrets.token_hex(8)}
        )
        for name in (work.base_name, *work.adapters):
            target.measure(Load(1, 1, 3, 1, 100), [name], seed=0)
        yield target
