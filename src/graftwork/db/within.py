"""within: a service takes part in a transaction that is open, so that several of them change everything or nothing."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from graftwork.db.connect import Database, Transaction

Service = TypeVar("Service")
_OURS = f"{__name__.partition('.')[0]}."


class OpenTransaction(Database):
    """A database in which one transaction is open: what is read and written is read and written in that one.

    Whoever opened it commits, and tells who waits for commits.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def transaction(self) -> AbstractContextManager[Transaction]:
        return nullcontext(self._tx)

    def reading(self) -> AbstractContextManager[Transaction]:
        return nullcontext(self._tx)


def within(service: Service, tx: Transaction) -> Service:
    """The same service, which does its work in `tx`, and so do the services that it was made with: all else is shared.

    It is for whoever opened the transaction, and for as long as that is open.
    """
    made: Service = _joined(service, OpenTransaction(tx), ())
    assert made is not service, "a service has a database"
    return made


def _joined(one: Any, database: Database, around: tuple[int, ...]) -> Any:
    """A copy with another database, also of what it holds; itself where there is none in it."""
    if isinstance(one, Database):
        return database
    if not type(one).__module__.startswith(_OURS) or not hasattr(one, "__dict__") or id(one) in around:
        return one
    held = vars(one)
    joined = {name: _joined(value, database, (*around, id(one))) for name, value in held.items()}
    if all(joined[name] is value for name, value in held.items()):
        return one
    made = copy.copy(one)
    vars(made).update(joined)
    return made
