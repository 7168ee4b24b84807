"""turns: a request of a session is decided on what that keeps to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from graftwork.access.principal import Principal
from graftwork.errors import GraftworkError
from graftwork.gateway.in_thread import in_thread
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.sessions.pin import session_key
from graftwork.traffic.sessions.rows import Name
from graftwork.traffic.sessions.sessions import Sessions

#: How often sessions are looked through for those that nobody came back to, in seconds.
SWEEP_S: Final = 60.0
log = logging.getLogger(__name__)


def name_of(who: Principal, session: str | None) -> Name | None:
    """Whose session it is: of the user who asks, else of the key and those that took its place."""
    if session is None:
        return None
    owner = f"user:{who.user}" if who.user is not None else who.name
    return who.tenant, session_key(owner, session)


async def decided(sessions: Sessions, name: Name | None, asked: Asked, decide: Callable[[Asked], Decision]) -> Decision:
    """Who answers. Raises as `decide`."""
    if name is None or not sessions.keeps:
        return decide(asked)
    known = sessions.known(name)
    pins = known if known is not None else await sessions.look(name) or {}
    decision = decide(replace(asked, pins=pins))
    if known is None or decision.turn is None or sessions.agrees(name, decision.turn):
        return decision
    # Something has changed on this route since: another server may have answered the session by now.
    again = await sessions.look(name)
    return decision if again is None or again == pins else decide(replace(asked, pins=again))


async def keep_swept(sessions: Sessions) -> None:
    """Let go what nobody comes back to, now and then, without end."""
    while True:
        await asyncio.sleep(SWEEP_S)
        try:
            await in_thread(sessions.sweep)
        except GraftworkError:
            pass  # the next time
        except Exception:
            log.exception("Old sessions could not be let go; it is tried again.")
