"""check_still: a stream goes on while the key that it was opened with may do what it could."""

from __future__ import annotations

from graftwork.access.access import Access
from graftwork.access.clock import timestamp, utc_now
from graftwork.access.principal import Principal
from graftwork.errors import Unauthenticated
from graftwork.registry.snapshot import Snapshot


def check_still(who: Principal, snapshot: Snapshot) -> None:
    """Raises Unauthenticated where a key was revoked, has expired or may do less than when it asked."""
    if not snapshot.part(Access).still(who, timestamp(utc_now())):
        raise Unauthenticated("Your key holds no longer, or may do less than when you began; ask again.")
