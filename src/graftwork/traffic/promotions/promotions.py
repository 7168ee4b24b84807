"""Promotions: the resources that say which versions start a rollout by themselves."""

from __future__ import annotations

from functools import partial

from graftwork.access.clock import Clock, utc_now
from graftwork.access.grants import check_pattern
from graftwork.access.names import check_name
from graftwork.db import Database
from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import canonical
from graftwork.protocol.promotions import PromotionDocument, PromotionSpec
from graftwork.protocol.rollouts import CandidatePart, RolloutSpec
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.resources.resources import Resources
from graftwork.traffic.resources.table import LiveTable, reader_of
from graftwork.traffic.rollouts.plan import Plan

Promotion = Resource[PromotionSpec]


def promotion_text(spec: PromotionSpec) -> str:
    """Canonical JSON of what was said; raises InvalidRequest for what could never promote anything."""
    try:
        check_pattern(spec.adapters)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, field="spec.adapters") from None
    for name, value in (("route", spec.route), ("when.alias", spec.when.alias)):
        if value is not None:
            check_name(value, what=name)
    if Plan.of(rollout_of(spec, "adapter", "adapter:1.0.0")).winner is None:
        raise InvalidRequest(
            "spec.strategy ends without a winner; a promotion is by canary or blueGreen.", field="spec.strategy"
        )
    return canonical(spec.to_json(), what="spec")


def rollout_of(spec: PromotionSpec, adapter: str, reference: str) -> RolloutSpec:
    """The rollout that a policy begins for a version."""
    candidates = [CandidatePart(reference=reference)]
    return RolloutSpec(route=spec.route or adapter, candidates=candidates, strategy=spec.strategy)


PROMOTION: Kind[PromotionSpec, Promotion] = Kind(
    word="promotion",
    many="promotions",
    noun="promotion policy",
    listed_by="graftwork promotion list",
    spec=PromotionSpec,
    document=PromotionDocument,
    made=Promotion,
    check_name=partial(check_name, what="promotion policy"),
    text=promotion_text,
)


class Promotions(Resources[PromotionSpec, Promotion]):
    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        super().__init__(PROMOTION, database, clock)


class LivePromotions(LiveTable[Promotion]):
    """What every policy's name means at one moment."""


read_promotions = reader_of(LivePromotions, PROMOTION)
