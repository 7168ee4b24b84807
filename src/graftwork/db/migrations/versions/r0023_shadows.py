"""Shadows: how a version would have answered beside the one that did, and what it said where that is kept."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
DIGEST = sa.String(71)
ID = sa.String(64)
WORD = sa.String(16)
HASH = sa.String(96)
KEY = ["tenant", "request_id", "arm"]


def upgrade() -> None:
    op.create_table(
        "shadow_diffs",
        *_columns(tenant=NAME, request_id=ID, arm=NAME, at=TIMESTAMP, door=sa.String(64)),
        *_columns(route=sa.Text(), rollout=sa.Text()),
        *_nullable(user_id=sa.Text()),
        *_columns(model=sa.Text(), digest=DIGEST, shadow_model=sa.Text(), shadow_digest=DIGEST, outcome=WORD),
        *_nullable(error=sa.Text()),
        *_columns(sampled=sa.Boolean()),
        *_nullable(exact=sa.Boolean(), normalised=sa.Boolean(), similarity=sa.Float(53), length_ratio=sa.Float(53)),
        *_nullable(latency_s=sa.Float(53), shadow_latency_s=sa.Float(53)),
        *_columns(output_tokens=COUNT, shadow_output_tokens=COUNT),
        *_nullable(mean_logprob=sa.Float(53), shadow_mean_logprob=sa.Float(53)),
        *_nullable(finish_reason=WORD, shadow_finish_reason=WORD),
        *_columns(empty=sa.Boolean(), repetitive=sa.Boolean(), refusal=sa.Boolean()),
        *_nullable(answer_hash=HASH, shadow_hash=HASH),
        sa.PrimaryKeyConstraint(*KEY, name="pk_shadow_diffs"),
    )
    op.create_index("ix_shadow_diffs_tenant_at_request_id", "shadow_diffs", ["tenant", "at", "request_id"])
    op.create_index("ix_shadow_diffs_tenant_route_at", "shadow_diffs", ["tenant", "route", "at"])
    op.create_index("ix_shadow_diffs_tenant_user_id", "shadow_diffs", ["tenant", "user_id"])
    op.create_table(
        "shadow_texts",
        *_columns(tenant=NAME, request_id=ID, arm=NAME, at=TIMESTAMP, sealed=sa.Text()),
        sa.PrimaryKeyConstraint(*KEY, name="pk_shadow_texts"),
        sa.ForeignKeyConstraint(KEY, [f"shadow_diffs.{column}" for column in KEY], name="fk_shadow_texts_shadow_diffs"),
    )
    op.create_index("ix_shadow_texts_tenant_at", "shadow_texts", ["tenant", "at"])


def _columns(**types: sa.types.TypeEngine[Any]) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=False) for name, type_ in types.items()]


def _nullable(**types: sa.types.TypeEngine[Any]) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=True) for name, type_ in types.items()]
