"""Resource: what a name of one kind means at one of its revisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from graftwork.protocol import resource

Spec = TypeVar("Spec", bound=resource.Spec)


@dataclass(frozen=True)
class Revision:
    """Which revision it is and who made it."""

    number: int  #: 1, 2, 3 … of its name, never given twice
    digest: str  #: of the text of its spec
    created_at: str
    created_by: str
    reason: str | None

    def brief(self) -> dict[str, Any]:
        """As events name it."""
        return {"revision": self.number, "digest": self.digest}


@dataclass(frozen=True)
class Resource(Generic[Spec]):
    """Immutable. A kind may add to it what it works out of the spec."""

    tenant: str
    name: str
    revision: Revision
    spec: Spec = field(repr=False)
    #: Since when the name means this revision, and who made it so; None where it means another, or nothing.
    updated_at: str | None = None
    updated_by: str | None = None

    @property
    def live(self) -> bool:
        """Whether it was what the name means when it was read."""
        return self.updated_at is not None

    @property
    def label(self) -> str:
        """`sentiment/3`"""
        return f"{self.name}/{self.revision.number}"


Made = TypeVar("Made", bound=Resource[Any])
