"""What all tables are made of: their names for constraints, and the types of columns."""

from __future__ import annotations

from sqlalchemy import BigInteger, Integer, MetaData, String, Text

#: The revision that this code reads and writes; a test holds it to the newest file in `migrations/versions`.
HEAD = "0027"

NAMING = {
    "pk": "pk_%(table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
}

metadata = MetaData(naming_convention=NAMING)
Count = BigInteger().with_variant(Integer, "sqlite")


def bytewise(length: int) -> String:
    """Text that is compared byte by byte: by a language's rules, PostgreSQL would sort "a-b" as if it were "ab"."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


Name = bytewise(128)
Bytewise = Text().with_variant(Text(collation="C"), "postgresql")
Digest = String(71)  # "sha256:" and 64 hex digits
Timestamp = String(27)  # RFC 3339, UTC, microseconds: its order as text is its order in time
