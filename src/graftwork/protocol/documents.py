"""The bodies and answers of documents and signatures."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody

MAX_NOTE = 2048
MAX_PEM = 16 << 10


class DocumentBody(OurBody):
    """POST …/documents: what the document is; its bytes are stored already."""

    kind: str = Field(max_length=24)
    name: str = Field(max_length=255)
    media_type: str = Field(default="application/octet-stream", max_length=127)
    size: int = Field(ge=0, le=1 << 50)
    digest: str = Field(max_length=71)
    note: str = Field(default="", max_length=MAX_NOTE)


class DocumentAnswer(Shape):
    """One document of a version."""

    id: str
    source: Literal["bundle", "added"]
    kind: str
    name: str
    revision: int
    superseded: bool
    media_type: str
    size: int
    digest: str
    note: str
    created_at: str
    created_by: str


class DocumentList(Shape):
    """GET …/documents: a page, and what leads to the next one."""

    documents: list[DocumentAnswer]
    next_page_token: str | None


class SignatureBody(OurBody):
    """POST …/signatures: the stored signature file by its digest, and the public key that it holds under, in PEM."""

    bundle: str = Field(max_length=71)
    public_key: str = Field(max_length=MAX_PEM)


class SignatureAnswer(Shape):
    """One signature of a version."""

    number: int
    fingerprint: str
    algorithm: str
    public_key: str
    bundle: str
    size: int
    created_at: str
    created_by: str


class SignatureList(Shape):
    """GET …/signatures."""

    signatures: list[SignatureAnswer]
