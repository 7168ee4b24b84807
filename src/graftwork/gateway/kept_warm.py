"""KeptWarm: pins in this server's engine what may answer soon, and says whether it is there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from graftwork.engine.request import AdapterHandle
from graftwork.engine.residency import Residency
from graftwork.errors import GraftworkError, Unavailable
from graftwork.gateway.engine_slot import EngineSlot
from graftwork.registry.snapshot import Snapshot
from graftwork.traffic.rollouts.rollout import ArmVersion, Rollout
from graftwork.traffic.rollouts.warmth import keep_warm

log = logging.getLogger(__name__)

#: A load is begun, not waited for, in seconds.
BEGIN_S: Final = 0.01
#: What found no room, or was lost on its way, is asked for again after so long, in seconds.
AGAIN_S: Final = 5.0


class KeptWarm:
    """A `Readiness`. It owns the pins that it made, and leaves those alone that somebody asked for by name."""

    def __init__(self, slot: EngineSlot, snapshot: Callable[[], Snapshot], budget_bytes: int) -> None:
        self._slot, self._snapshot, self._budget_bytes = slot, snapshot, budget_bytes
        self._own: dict[str, AdapterHandle] = {}
        self._asked: dict[str, float] = {}  # when, by `time.monotonic`
        self._refused: dict[str, str] = {}  # why there was no load

    async def refresh(self) -> None:
        """Pin what is wanted by now, and let go of what no longer is; quick, for loads go on by themselves."""
        if (engine := self._slot.started) is None:
            return
        memory, base = engine.residency(), engine.outline.weights_digest
        wanted = keep_warm(self._snapshot(), memory, base_digest=base, budget_bytes=self._budget_bytes)
        for digest in self._own.keys() - wanted.keys():
            engine.unpin(self._own.pop(digest))
        self._asked = {digest: at for digest, at in self._asked.items() if digest in wanted}
        self._refused = {digest: why for digest, why in self._refused.items() if digest in wanted}
        for digest, handle in wanted.items():
            if self._settled(memory.get(digest), digest):
                continue
            self._asked[digest] = time.monotonic()
            try:
                await engine.load(handle, pin=True, wait_s=BEGIN_S)
            except GraftworkError as error:
                log.info("%s is not kept in memory: %s", handle.label, error.message)
                self._refused[digest] = error.message
            else:
                self._own[digest] = handle
                self._refused.pop(digest, None)

    def _settled(self, here: Residency | None, digest: str) -> bool:
        """Whether nothing is to be asked for: it is pinned, whoever did that, or failed, or was asked for just now."""
        if here is not None and (here.pinned or here.state == "failed"):
            return True
        return time.monotonic() - self._asked.get(digest, -AGAIN_S) < AGAIN_S

    def leave(self, digest: str) -> None:
        """Somebody has pinned it by name: it is theirs from now on."""
        self._own.pop(digest, None)

    def problem(self, rollout: Rollout) -> str | None:
        memory = self._memory()
        for _, version in rollout.by_arm[:-1]:
            here = memory.get(version.digest)
            if here is not None and here.error is not None and not isinstance(here.error, Unavailable):
                return f"{version.label} cannot be loaded: {here.error.message}"
        return None

    def waits_for(self, rollout: Rollout) -> str | None:
        if self._slot.started is None:
            return f"The server is not ready: {'; '.join(self._slot.reasons())}."
        memory = self._memory()
        found = (self._lacks(version, memory.get(version.digest)) for _, version in rollout.by_arm[:-1])
        return " ".join(why for why in found if why is not None) or None

    def _lacks(self, version: ArmVersion, here: Residency | None) -> str | None:
        if here is not None and here.state == "resident":
            return None
        why = here.error.message if here is not None and here.error is not None else self._refused.get(version.digest)
        return f"{version.label} is being loaded." if why is None else f"{version.label} cannot be loaded yet: {why}"

    def ready(self, rollout: Rollout) -> bool:
        memory = self._memory()
        digests = [version.digest for _, version in rollout.by_arm[:-1]]
        return all(digest in memory and memory[digest].state == "resident" for digest in digests)

    def _memory(self) -> Mapping[str, Residency]:
        engine = self._slot.started
        return {} if engine is None else engine.residency()
