"""db: the one database, its transactions and its schema."""

from graftwork.db.connect import Database, Transaction, has_tables

__all__ = ["Database", "Transaction", "has_tables"]
