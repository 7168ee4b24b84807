"""The bodies and answers of lineage, under /api/v1/lineage."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from graftwork.protocol.answers import Shape
from graftwork.protocol.registry import OurBody, Reason, Stage

Direction = Literal["upstream", "downstream", "both"]
MAX_NODE = 1400  # characters: a kind, a name and a digest at their longest


class EdgeBody(OurBody):
    """POST …/lineage/edges: that `from` stands on `to` in a role; ends are nodes or references to versions."""

    model_config = ConfigDict(populate_by_name=True)

    source: str = Field(alias="from", max_length=MAX_NODE)
    role: str = Field(max_length=40)
    target: str = Field(alias="to", max_length=MAX_NODE)
    reason: Reason = None


class EdgeAnswer(Shape):
    """One fact, who said so and when."""

    source: str = Field(alias="from")
    role: str
    target: str = Field(alias="to")
    at: str
    by: str


class RegisteredVersion(Shape):
    """A name under which a version's bytes are registered."""

    adapter: str
    version: str
    stage: Stage
    aliases: list[str]
    created_at: str
    created_by: str


class LineageNode(Shape):
    """A node; of a version all its registrations, none where it was deleted."""

    id: str
    kind: str
    name: str
    digest: str | None
    versions: list[RegisteredVersion]


class LineageAnswer(Shape):
    """GET /api/v1/lineage: the graph around some nodes, nearest first."""

    roots: list[str]
    direction: Direction
    nodes: list[LineageNode]
    edges: list[EdgeAnswer]
    truncated: bool


class ImpactAnswer(Shape):
    """GET /api/v1/lineage/impact: a page of what stands on some nodes, and how much there is of it in all."""

    roots: list[str]
    count: int
    counts: dict[str, int]
    nodes: list[LineageNode]
    next_page_token: str | None
