"""Steering: what each server does by itself for rollouts: it keeps their arms warm and moves them on."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Final

from graftwork.db import Database
from graftwork.db.lease import Lease
from graftwork.db.time import DatabaseClock
from graftwork.errors import GraftworkError
from graftwork.gateway.engine_slot import EngineSlot
from graftwork.gateway.in_thread import in_thread
from graftwork.gateway.kept_warm import KeptWarm
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.promotions.conditions import Conditions
from graftwork.traffic.promotions.promoter import Promoter
from graftwork.traffic.rollouts.controller import Controller
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.rollouts.ports import Judge
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.rollouts.warmth import SHARE

log = logging.getLogger(__name__)

#: How often it is looked whether anything is to be done, in seconds; and how often though nothing has changed.
LOOK_S: Final = 0.2
IDLE_LOOKS: Final = 5


class Steering:
    """A loop beside the requests; it ends with the server, and another one goes on."""

    def __init__(self, snapshots: SnapshotReader, kept: KeptWarm, controller: Controller, promoter: Promoter) -> None:
        self._snapshots, self._kept, self._controller, self._promoter = snapshots, kept, controller, promoter

    async def run(self) -> None:
        """Until it is cancelled; what goes wrong is told, and tried again."""
        seen, looks = None, 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                snapshot = await in_thread(self._snapshots.current)
                looks += 1
                if snapshot is not seen or snapshot.part(LiveRollouts).by_route or looks >= IDLE_LOOKS:
                    await self.look()
                    seen, looks = snapshot, 0
            except GraftworkError as error:
                log.warning("Rollouts cannot go on for now: %s", error.message)
            except Exception:
                log.exception("Rollouts could not go on; it is tried again.")

    async def look(self) -> None:
        await self._kept.refresh()
        await in_thread(self._controller.look)
        await in_thread(self._promoter.look)

    def close(self) -> None:
        """Let another server go on at once."""
        try:
            self._controller.close()
        except GraftworkError as error:  # it goes on a little later
            log.info("The lease of rollouts was not given back: %s", error.message)


def steered(
    database: Database,
    snapshots: SnapshotReader,
    slot: EngineSlot,
    cache_bytes: int,
    judge: Judge,
    templates: Templates,
) -> tuple[Rollouts, Promoter, KeptWarm, Steering]:
    """The rollouts of a database, who begins them, what this server keeps warm for them, and what moves them on."""
    rollouts, clock = Rollouts(database, judge=judge), DatabaseClock(database)
    kept = KeptWarm(slot, snapshots.current, int(SHARE * cache_bytes))
    lease = Lease(database, "rollouts", holder=uuid.uuid4().hex)
    controller = Controller(rollouts, lease, snapshots.current, kept, clock, judge)
    promoter = Promoter(database, rollouts, Conditions(rollouts, templates), lease, snapshots.current, clock)
    return rollouts, promoter, kept, Steering(snapshots, kept, controller, promoter)
