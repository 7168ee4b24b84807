"""Predictions: a record of each answer, what was said where that is kept, feedback, usage by day, how to record."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

NAME = sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql")
BYTEWISE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIMESTAMP = sa.String(27)
DIGEST = sa.String(71)
ID = sa.String(64)
OF_A_REQUEST = ["tenant", "request_id"]


def upgrade() -> None:
    op.create_table(
        "predictions",
        *_columns(tenant=NAME, request_id=ID, at=TIMESTAMP, position=COUNT, door=sa.String(64), principal=sa.Text()),
        *_nullable(key_id=sa.Text(), user_id=sa.Text(), session_id=sa.Text(), asked=sa.Text(), task=sa.Text()),
        *_nullable(adapter=sa.Text(), model=sa.Text(), digest=DIGEST),
        *_columns(adapters=sa.Text()),
        *_nullable(base_digest=DIGEST, template_digest=DIGEST, route=sa.Text(), route_revision=COUNT),
        *_nullable(rollout=sa.Text(), arm=sa.Text(), decision=sa.Text()),
        *_columns(engine=sa.Text(), sampling=sa.Text(), streamed=sa.Boolean(), choices=COUNT),
        *_columns(prompt_tokens=COUNT, output_tokens=COUNT, cached_tokens=COUNT),
        *_nullable(queue_s=sa.Float(53), ttft_s=sa.Float(53)),
        *_columns(latency_s=sa.Float(53), outcome=sa.String(16), status=COUNT),
        *_nullable(error=sa.Text(), finish_reason=sa.String(16), mean_logprob=sa.Float(53)),
        *_columns(empty=sa.Boolean(), repetitive=sa.Boolean(), refusal=sa.Boolean()),
        *_nullable(format_valid=sa.Boolean(), prompt_hash=sa.String(96), answer_hash=sa.String(96)),
        sa.PrimaryKeyConstraint(*OF_A_REQUEST, name="pk_predictions"),
    )
    op.create_index("ix_predictions_tenant_at_request_id", "predictions", ["tenant", "at", "request_id"])
    op.create_index("ix_predictions_tenant_route_at", "predictions", ["tenant", "route", "at"])
    op.create_index("ix_predictions_tenant_user_id", "predictions", ["tenant", "user_id"])
    op.create_table(
        "prediction_texts",
        *_columns(tenant=NAME, request_id=ID, at=TIMESTAMP, sealed=sa.Text()),
        sa.PrimaryKeyConstraint(*OF_A_REQUEST, name="pk_prediction_texts"),
        _predictions_key("prediction_texts"),
    )
    op.create_index("ix_prediction_texts_tenant_at", "prediction_texts", ["tenant", "at"])
    op.create_table(
        "feedback",
        *_columns(tenant=NAME, request_id=ID, name=sa.String(64), source=sa.String(64)),
        *_nullable(value=sa.Float(53), label=sa.Text()),
        *_columns(at=TIMESTAMP, by=sa.Text()),
        sa.PrimaryKeyConstraint(*OF_A_REQUEST, "name", "source", name="pk_feedback"),
        _predictions_key("feedback"),
    )
    op.create_table(
        "usage_days",
        *_columns(tenant=NAME, day=sa.String(10), adapter=BYTEWISE, requests=COUNT, errors=COUNT),
        *_columns(prompt_tokens=COUNT, output_tokens=COUNT, cached_tokens=COUNT, seconds=sa.Float(53)),
        sa.PrimaryKeyConstraint("tenant", "day", "adapter", name="pk_usage_days"),
    )
    op.create_table(
        "recordings",
        *_columns(tenant=NAME, spec=sa.Text(), secret=sa.Text(), updated_at=TIMESTAMP, updated_by=sa.Text()),
        sa.PrimaryKeyConstraint("tenant", name="pk_recordings"),
    )


def _columns(**types: sa.types.TypeEngine[Any]) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=False) for name, type_ in types.items()]


def _nullable(**types: sa.types.TypeEngine[Any]) -> list[sa.Column[Any]]:
    return [sa.Column(name, type_, nullable=True) for name, type_ in types.items()]


def _predictions_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        OF_A_REQUEST, [f"predictions.{column}" for column in OF_A_REQUEST], name=f"fk_{table}_predictions"
    )
