"""The bodies of our own API under /api/v1."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body

MAX_REASON = 2048
MAX_BLOBS = 4096  # as many as a bundle has files
Stage = Literal["development", "staging", "production", "archived"]
Reason = Annotated[str | None, Field(max_length=MAX_REASON)]
#: U+0000 in a text of a body, where it can only be escaped; the backslash itself is not.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class OurBody(Body):
    """A body of our own API: a field that it does not have is a mistake, not somebody else's extension."""

    model_config = ConfigDict(extra="forbid")

    @classmethod
    def read(cls, raw: bytes | bytearray) -> Self:
        """As `Body.read`; InvalidRequest also for a NUL character, which PostgreSQL takes in no text."""
        if _NUL.search(raw):
            raise InvalidRequest("A text in the request body holds a NUL character (U+0000); leave it out.")
        return super().read(raw)


class Blob(OurBody):
    """One file's digest and its size in bytes."""

    digest: str
    size: int = Field(ge=0)


class MissingBody(OurBody):
    """POST …/blobs/missing: the files that a client has."""

    blobs: list[Blob] = Field(max_length=MAX_BLOBS)


class PushBody(OurBody):
    """POST …/versions: which files make the version, what it is called, and its `Metadata`."""

    manifest: dict[str, Any]
    version: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict, description="By the schema in docs/reference/metadata.md.")


class PromoteBody(OurBody):
    """POST …/promote: which version, and why."""

    reference: str
    reason: Reason = None


class RollbackBody(OurBody):
    """POST …/rollback: why."""

    reason: Reason = None


class AliasBody(OurBody):
    """PUT …/aliases/{alias}: where it shall point; `expected` is the digest it must point at now."""

    target: str
    expected: str | None = None
    reason: Reason = None
