"""Promotions: policies by which versions start rollouts by themselves, over the wire."""

from __future__ import annotations

from graftwork.client.resources import Resources
from graftwork.client.wire import Json, Wire


class Promotions(Resources):
    """`client.promotions`: policies as resources, and what the versions that one means wait for."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire, "/api/v1/promotions", "promotions")

    def candidates(self, name: str) -> list[Json]:
        """The versions that a policy means now, and what each still waits for: `{"version", "waits_for", …}`."""
        return self._wire.pages(f"{self._at(name)}/candidates", "candidates")
