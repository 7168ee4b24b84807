"""Pin: what a session keeps to on one route; and which of those that may answer there now that is. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

#: A route and the rule of it that won; "" where a route has no rules.
Place = tuple[str, str]
#: Who may answer at a place: an arm and the digest of its version, None for the base.
Option = tuple[str, str | None]
#: What could have released a pin of this place: the route's revision, the rollout there, and who may answer.
Ground = tuple[int | None, str | None, tuple[Option, ...]]
State = Literal["began", "kept", "released"]
#: Why a version is kept no longer: how its rollout ended, that its arm has no keys any more, what became of the
#: version, or that the route means another one.
Ending = Literal["aborted", "promoted", "completed", "superseded"]
Why = Ending | Literal["weight", "archived", "forbidden", "deleted", "moved"]


@dataclass(frozen=True)
class Pin:
    """What a session was answered with. The digest says by what it is kept, the rest why it may be kept no longer."""

    adapter: str | None  #: as a reference names it, `tone` or `acme/tone`; None for the base
    digest: str | None
    arm: str
    rollout: str | None = None
    number: int = 1  #: 1 for the first of its place, then one more each time that it was released


Pins = Mapping[Place, Pin]


@dataclass(frozen=True)
class Turn:
    """What one request did to the pin of its session: `pin` is what it has from now on."""

    place: Place
    state: State
    pin: Pin
    ground: Ground
    why: Why | None = None
    before: Pin | None = None  #: of this place

    @property
    def told(self) -> str:
        """For the reason of a decision."""
        return {"began": "", "kept": ":session", "released": f":released:{self.why}"}[self.state]

    def to_json(self) -> dict[str, str | None]:
        """For whoever asks: what it was, and where it was released why, and from which version."""
        if self.before is None or self.why is None:
            return {"state": self.state}
        return {"state": self.state, "reason": self.why, "before": self.before.digest}


def session_key(owner: str, session: str) -> str:
    """What rows call a session: 64 hex digits of whose it is and its id, so that an id is of no use to others."""
    return hashlib.sha256(json.dumps([owner, session]).encode()).hexdigest()


def kept(pins: Pins, place: Place, options: Sequence[Option]) -> int | None:
    """Which of those that may answer the session keeps to; None where it has nothing to keep to.

    That is what it has by this rule; where it has nothing by it, what it has by another rule of the route, since rules
    are renamed and put in another order.
    """
    own = pins.get(place)
    if own is not None:
        return _at(own, options)
    others = (_at(pin, options) for (route, _), pin in sorted(pins.items(), key=_by_place) if route == place[0])
    return next((one for one in others if one is not None), None)


def _at(pin: Pin, options: Sequence[Option]) -> int | None:
    """The option with the pin's bytes, of several the one of its arm."""
    found = [index for index, (_, digest) in enumerate(options) if digest == pin.digest]
    return next((index for index in found if options[index][0] == pin.arm), found[0] if found else None)


def _by_place(item: tuple[Place, Pin]) -> Place:
    return item[0]
