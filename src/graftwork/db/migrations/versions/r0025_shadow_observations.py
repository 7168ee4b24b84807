"""Shadow observations: of copies also how long their prompts were, and when their first token came."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("shadow_diffs", sa.Column("shadow_ttft_s", sa.Float(53), nullable=True))
    op.add_column("shadow_diffs", sa.Column("shadow_prompt_tokens", COUNT, nullable=True))
