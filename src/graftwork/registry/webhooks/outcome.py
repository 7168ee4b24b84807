"""Outcome: how one attempt to deliver ended, and when the next one is due."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

FIRST_WAIT_S: Final = 5.0
LONGEST_WAIT_S: Final = 3600.0
#: After so long nobody tries again by himself.
GIVES_UP_AFTER: Final = timedelta(hours=24)
_AGAIN: Final = frozenset({408, 425, 429})


@dataclass(frozen=True)
class Outcome:
    """A status, or why there is none; of an answer nothing else is kept."""

    status: int | None = None
    error: str | None = None
    refused: bool = False  #: it was not sent, and would not be another time
    retry_after_s: float = 0.0  #: what the answer asked for

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def passing(self) -> bool:
        """Whether another attempt may end otherwise: nobody answered, or the answer says so."""
        if self.status is None:
            return not self.refused
        return self.status in _AGAIN or self.status >= 500

    @property
    def words(self) -> str | None:
        """Why it is not delivered; None where it is."""
        if self.error is not None or self.delivered:
            return self.error
        redirected = self.status is not None and 300 <= self.status < 400
        return f"answered {self.status}{'; redirects are not followed' if redirected else ''}"

    def again_at(self, attempts: int, queued: datetime, now: datetime, chance: float) -> datetime | None:
        """When to try again after so many attempts; None: never.

        It waits 5 s, 10 s, 20 s … up to an hour, of which between half and all by chance, so that what failed together
        does not come back together; and as long as the answer asked for, at most an hour.

        Args:
            chance: 0 to 1, drawn evenly.
        """
        if not self.passing:
            return None
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempts - 1, 30))
        wait_s = max(longest * (1 + chance) / 2, min(self.retry_after_s, LONGEST_WAIT_S))
        at = now + timedelta(seconds=wait_s)
        return at if at - queued <= GIVES_UP_AFTER else None
