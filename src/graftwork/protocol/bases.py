"""Bodies and answers of the doors of base models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody

Text = Annotated[str, Field(max_length=1024)]


class BaseBody(OurBody):
    """POST …/bases: files of a base that are stored, and what it is called; without `manifest`, the server's own."""

    manifest: dict[str, Any] | None = None
    name: Text | None = None
    source: Text | None = None
    revision: Text | None = None


class BaseAnswer(Shape):
    """A base model; `manifest` are its files where the store keeps them, lists leave it out."""

    tenant: str
    name: str
    sequence: int
    digest: str
    source: str
    revision: str | None
    architecture: str
    weights_digest: str
    outline_digest: str
    config_digest: str | None
    tokenizer_digest: str | None
    template_digest: str | None
    created_at: str
    created_by: str
    stored_bytes: int | None
    manifest_digest: str | None
    manifest: dict[str, Any] | None = None


class BaseList(Shape):
    """GET …/bases: a page, and what leads to the next one."""

    bases: list[BaseAnswer]
    next_page_token: str | None
