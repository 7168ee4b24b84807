"""The bodies and answers of search, tags and descriptions."""

from __future__ import annotations

from pydantic import Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody
from graftwork.protocol.registry_answers import VersionAnswer


class FoundVersion(VersionAnswer):
    """A version that a search found: whether it is its adapter's newest, its tags, and what it was sorted by."""

    newest: bool
    tags: dict[str, str]
    value: str | float | None


class SearchAnswer(Shape):
    """GET /api/v1/search: a page, and what leads to the next one."""

    versions: list[FoundVersion]
    next_page_token: str | None


class TagBody(OurBody):
    """PUT …/tags/{key}: the value; of which version, else of the adapter itself."""

    value: str
    reference: str | None = None


class TagAnswer(Shape):
    """One tag, and who set it last."""

    key: str
    value: str
    updated_at: str
    updated_by: str


class TagList(Shape):
    """Tags by key."""

    tags: list[TagAnswer]


class DescribeBody(OurBody):
    """PATCH /api/v1/adapters/{name}: what is given is changed."""

    display_name: str | None = Field(None, max_length=256)
    description: str | None = Field(None, max_length=16_384)


class DescribedAdapter(Shape):
    """An adapter's name, and what people call it and say of it."""

    name: str
    display_name: str
    description: str
