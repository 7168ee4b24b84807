"""Mirror, Shadow: which requests are copied to a version that answers nobody; pure, and the same on every server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graftwork.registry.reference import Reference
from graftwork.registry.versions import Version
from graftwork.traffic.servable import servable
from graftwork.traffic.split import point_of


@dataclass(frozen=True)
class Mirror:
    """What a rollout has copied: a share, 0 to 1, of the requests that its stable version answers."""

    arm: str
    reference: str  #: the candidate by its digest
    share: float
    rollout: str  #: `support/3`
    stable: str  #: digest of the version whose requests are copied


@dataclass(frozen=True)
class Shadow:
    """A copy that is to be made of one request, and the version that it goes to."""

    arm: str
    version: Version
    rollout: str
    point: float  #: where in [0, 1) the request lies; below the share


def shadows_of(
    mirror: Mirror, tenant: str, route: str, request: str, answering: str, resolve: Callable[[Reference], Version]
) -> tuple[Shadow, ...]:
    """The copies of a request that the version with the digest `answering` answers: one or none.

    Which requests is said by a hash of their id, so that each can be explained, and that a larger share only adds some.
    Nothing is copied of what another arm answers, nor to what is gone, archived or may not serve.
    """
    point = mirrored_at(tenant, route, request)
    if answering == mirror.stable and point < mirror.share:
        version = servable(mirror.reference, resolve)
        if version is not None:
            return (Shadow(mirror.arm, version, mirror.rollout, point),)
    return ()


def mirrored_at(tenant: str, route: str, request: str) -> float:
    """Where a request lies on a route, for copies; independent of where its key lies for arms."""
    return point_of(f"{tenant}/{route}/shadow", request)
