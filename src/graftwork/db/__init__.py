"""db: the one database, its transactions and its schema."""

from graftwork.db.connect import Database, Transaction

__all__ = ["Database", "Transaction"]
