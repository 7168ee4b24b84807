"""Users: enters people of a tenant, changes their roles, and strikes them off."""

from __future__ import annotations

from typing import Final

from sqlalchemy import and_, delete, select

from graftwork.access import events
from graftwork.access.access import USERS
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.roles import Role
from graftwork.access.users import User, check_user
from graftwork.db import Database, Transaction
from graftwork.db.schema import users
from graftwork.errors import NotFound

SET: Final = "user.set"
REMOVED: Final = "user.removed"


class Users:
    """Writes users."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def put(self, tenant: str, name: str, role: Role, display_name: str, *, actor: str) -> tuple[User, bool]:
        """Enter a user, or change one, and whether they are new; their keys can do at once what the role says.

        Raises:
            InvalidRequest: the name is none.
        """
        check_user(name)
        at = timestamp(self._clock())
        with self._database.transaction() as tx:
            before = _find(tx, tenant, name)
            if before is not None and (before.role, before.display_name) == (role, display_name):
                return before, False
            by = (at, actor) if before is None else (before.created_at, before.created_by)
            user = User(tenant, name, role, display_name, *by)
            _erase(tx, tenant, name)
            tx.execute(users.insert().values(vars(user)))
            payload = {
                "before": None if before is None else {"role": before.role, "display_name": before.display_name},
                "after": {"role": role, "display_name": display_name},
            }
            events.append(tx, tenant, actor, SET, f"{USERS}{name}", payload, at=at)
            return user, before is None

    def remove(self, tenant: str, name: str, *, actor: str) -> None:
        """Strike a user off; their keys are worth nothing from then on.

        Raises:
            NotFound: there is no such user.
        """
        at = timestamp(self._clock())
        with self._database.transaction() as tx:
            if (before := _find(tx, tenant, name)) is None:
                raise NotFound(f"There is no user {name[:200]}.")
            _erase(tx, tenant, name)
            events.append(tx, tenant, actor, REMOVED, f"{USERS}{name}", {"role": before.role}, at=at)


def has_user(tx: Transaction, tenant: str, name: str) -> bool:
    return _find(tx, tenant, name) is not None


def _find(tx: Transaction, tenant: str, name: str) -> User | None:
    row = tx.execute(select(users).where(users.c.tenant == tenant, users.c.name == name)).first()
    return None if row is None else User.from_row(row)


def _erase(tx: Transaction, tenant: str, name: str) -> None:
    tx.execute(delete(users).where(and_(users.c.tenant == tenant, users.c.name == name)))
