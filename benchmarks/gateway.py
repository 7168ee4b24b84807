"""What the gateway adds to a request, how many it answers alone, and how soon a rollback counts.

    python benchmarks/gateway.py --json
    python benchmarks/gateway.py --trials 20 --databases sqlite postgresql --records relaxed --json

Two servers stand side by side, each in a process of its own, and answer the same bodies by the same engine, which
says back what it was told: the floor, an app that reads the JSON, asks the engine and writes the answer, and the whole
gateway with its tenants, keys, quotas, routes and records. One client on a loopback socket asks them in turn, so that
whatever else the machine does falls on both; `added_p50_ms` and `added_p99_ms` are the medians, over rounds, of the
difference of their quantiles. `requests_per_s` is the gateway's with many clients at once, beside the floor's.

A rollback is sent to one gateway while another is asked all the time. The time until its first answer by the old
version is counted from when the first began to commit the move of the pointer, and beside that from when the rollback
was sent, with its whole transaction. On PostgreSQL these are two processes, on SQLite it is one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gateway_servers import ADAPTERS, NEW, OLD, Town, Wanted, started
from keep_alive import Connection, get, post, replies_per_s
from script import as_served, machine, quiet

#: Requests to one server before the other has its turn.
BLOCK = 50
#: Connections that ask a gateway while another is told to roll back.
ASKING = 2
#: Answers by the old version that must follow the first, so that nothing goes back and forth.
SETTLED = 20


def main() -> None:
    as_served()
    options = _options()
    figures: dict[str, Any] = {"idle_share_before": quiet()}
    with TemporaryDirectory(prefix="graftwork-bench-") as folder:
        root = Path(folder)
        figures |= asyncio.run(added(root, options))
        found = {kind: asyncio.run(rollbacks(root, kind, options)) for kind in options.databases}
    if found:
        figures |= {"rollback_ms_p95": max(one["p95_ms"] for one in found.values()), "rollbacks": found}
    figures |= {"settings": {name: value for name, value in vars(options).items() if name != "json"}}
    figures |= {"machine": machine()}
    print(json.dumps(figures) if options.json else json.dumps(figures, indent=2))


async def added(root: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The gateway beside the floor: one request at a time, and as many as there are clients."""
    town = Town(options.tenants, options.routes, options.rules, options.records)
    with ExitStack() as stack:
        floor = stack.enter_context(started(Wanted("floor")))
        whole = stack.enter_context(started(Wanted("town", root / "town", town=town)))
        plain, asks, large = ([_chat(*one) for one in found] for found in (floor.asks, whole.asks, whole.large))
        plain *= len(asks)
        figures: dict[str, Any] = {"settled_s": whole.settled_s}
        figures |= await _beside(options, floor.port, plain, whole.port, asks)
        figures["one_route_of_1000_rules"] = await _beside(options, floor.port, plain, whole.port, large, few=True)
        rates = await _rates(options, floor.port, plain, whole.port, asks)
    return {**figures, **rates}


async def _beside(
    options: argparse.Namespace, floor: int, plain: list[bytes], whole: int, asks: list[bytes], *, few: bool = False
) -> dict[str, Any]:
    """Quantiles of both, and the medians of their differences by round."""
    one, other = await Connection.to(floor), await Connection.to(whole)
    rounds: list[tuple[list[float], list[float]]] = []
    turns = cycle(plain), cycle(asks)
    for number in range(1 + (max(1, options.rounds // 2) if few else options.rounds)):
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(max(1, options.requests // BLOCK)):
            for connection, bodies, taken in zip((one, other), turns, times, strict=True):
                for _ in range(BLOCK):
                    reply = await connection.ask(next(bodies))
                    assert reply.status == 200, reply.body
                    taken.append(1e3 * reply.seconds)
        if number:  # the first is to warm up
            rounds.append(times)
    one.close()
    other.close()
    figures: dict[str, Any] = {}
    for share in (50, 99):
        pairs = [(_quantile(without, share), _quantile(with_it, share)) for without, with_it in rounds]
        figures[f"added_p{share}_ms"] = round(statistics.median(after - before for before, after in pairs), 3)
        figures[f"floor_p{share}_ms"] = round(statistics.median(before for before, _ in pairs), 3)
        figures[f"gateway_p{share}_ms"] = round(statistics.median(after for _, after in pairs), 3)
    return figures


async def _rates(
    options: argparse.Namespace, floor: int, plain: list[bytes], whole: int, asks: list[bytes]
) -> dict[str, Any]:
    """Requests per second with all clients at once, in rounds in turn, and the median of the pairs' ratios."""
    pairs = []
    for number in range(1 + options.rounds):
        count = options.requests * (2 if number else 1) // 2
        pair = [
            await replies_per_s(port, bodies, options.clients, count)
            for port, bodies in ((floor, plain), (whole, asks))
        ]
        if number:
            pairs.append(pair)
    return {
        "requests_per_s": round(statistics.median(own for _, own in pairs), 1),
        "floor_requests_per_s": round(statistics.median(least for least, _ in pairs), 1),
        "requests_per_s_over_floor": round(statistics.median(own / least for least, own in pairs), 3),
        "clients": options.clients,
    }


async def rollbacks(root: Path, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds from a rollback's commit, and from its sending, to the first answer by the old version."""
    with ExitStack() as stack:
        url = stack.enter_context(_database(kind, options.postgresql))
        home = root / f"rollbacks-{kind}"
        told = stack.enter_context(started(Wanted("pair", home, database=url, records=options.records)))
        asked = told
        if url is not None:
            asked = stack.enter_context(started(Wanted("second", home, database=url, records=options.records)))
        taken = [await _rollback(told.port, asked.port, number) for number in range(1 + options.trials)][1:]
    committed, sent = ([1e3 * one[place] for one in taken] for place in (0, 1))
    return {
        "trials": options.trials,
        "processes": 1 if url is None else 2,
        "p50_ms": round(statistics.median(committed), 2),
        "p95_ms": round(_quantile(committed, 95), 2),
        "longest_ms": round(max(committed), 2),
        "from_sending_p50_ms": round(statistics.median(sent), 2),
        "from_sending_p95_ms": round(_quantile(sent, 95), 2),
    }


async def _rollback(told: int, asked: int, number: int) -> tuple[float, float]:
    """Seconds from the commit of a rollback, and from its sending, to the first answer by the old version."""
    name = ADAPTERS[number % len(ADAPTERS)]
    by, others = await Connection.to(told), [await Connection.to(asked) for _ in range(ASKING)]
    promoted = await by.ask(post(f"/api/v1/adapters/{name}/promote", {"reference": f"{name}:{NEW}"}))
    assert promoted.status == 200, promoted.body
    chat = _chat(None, name)
    while _version(await others[0].ask(chat)) != NEW:
        pass
    seen: list[tuple[float, str]] = []
    asking = [asyncio.create_task(_ask_on(one, chat, seen)) for one in others]
    await asyncio.sleep(0.02 + 0.005 * (number % 7))
    sent = time.perf_counter()
    answer = await by.ask(post(f"/api/v1/adapters/{name}/rollback", {}))
    assert answer.status == 200, answer.body
    await asyncio.gather(*asking)
    committed = float((await by.ask(get("/committed"))).body)
    first = next(at for at, version in seen if version == OLD)
    for one in (by, *others):
        one.close()
    assert sent < committed < first
    return first - committed, first - sent


async def _ask_on(connection: Connection, chat: bytes, seen: list[tuple[float, str]]) -> None:
    """Ask until enough answers of this connection came by the old version; none by the new may follow one."""
    settled = 0
    while settled < SETTLED:
        version = _version(await connection.ask(chat))
        seen.append((time.perf_counter(), version))
        assert version == OLD or not settled, f"{version} answered after a rollback had counted"
        settled += version == OLD


def _version(reply: Any) -> str:
    assert reply.status == 200, reply.body
    found: str = json.loads(reply.body)["graftwork"]["version"]
    return found


def _chat(key: str | None, model: str, user: str = "ann") -> bytes:
    """A question of sixty words."""
    said = [{"role": "user", "content": "word " * 60}]
    return post("/v1/chat/completions", {"model": model, "messages": said, "user": user, "max_tokens": 8}, key)


def _quantile(values: Sequence[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def _database(kind: str, postgresql: str | None) -> Iterator[str | None]:
    """The URL of an empty database; None for the SQLite file of a home."""
    if kind == "sqlite":
        yield None
    elif postgresql:
        yield postgresql
    else:
        sys.path.append(str(Path(__file__).parents[1] / "tests"))
        from support.postgresql import postgresql_server

        with postgresql_server() as server, server.database() as url:
            yield url


def _options() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print one JSON object on one line")
    made.add_argument("--tenants", type=int, default=100, help="each with a key, quotas and an adapter")
    made.add_argument("--routes", type=int, default=1000, help="of all tenants together")
    made.add_argument("--rules", type=int, default=3, help="of each route")
    made.add_argument("--records", choices=["off", "relaxed", "strict"], default="relaxed", help="of every answer")
    made.add_argument("--rounds", type=int, default=10, help="after one that does not count")
    made.add_argument("--requests", type=int, default=1000, help="to each server in a round")
    made.add_argument("--clients", type=int, default=16, help="at once, where requests per second are counted")
    made.add_argument("--trials", type=int, default=20, help="of a rollback, after one that does not count")
    made.add_argument("--databases", nargs="*", default=["sqlite", "postgresql"], choices=["sqlite", "postgresql"])
    made.add_argument("--postgresql", help="an empty database, instead of a server of our own")
    return made.parse_args()


if __name__ == "__main__":
    main()
