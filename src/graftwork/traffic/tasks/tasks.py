"""Tasks: their immutable revisions and, by name, the one that is live; SQL and events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import check_name, is_name
from graftwork.db import Database, Transaction
from graftwork.db.canonical import sha256
from graftwork.db.schema import task_revisions, tasks
from graftwork.errors import InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.tasks import TaskSpec
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.traffic.tasks.checked import check_spec

SET: Final = "task.set"
REMOVED: Final = "task.removed"
SUBJECTS: Final = "tasks/"


@dataclass(frozen=True)
class Revision:
    """One content that a task had."""

    number: int  #: 1, 2, 3 … of its name
    digest: str  #: SHA-256 over the JSON of the spec, as it is ordered
    spec: TaskSpec
    reason: str | None
    created_at: str
    created_by: str

    def to_json(self) -> dict[str, Any]:
        return {
            "revision": self.number,
            "digest": self.digest,
            "spec": self.spec.to_json(),
            "reason": self.reason,
            "created_at": self.created_at,
            "created_by": self.created_by,
        }


@dataclass(frozen=True)
class Task:
    """A name and the revision that it means now, since when and by whom."""

    tenant: str
    name: str
    revision: Revision
    updated_at: str
    updated_by: str

    @property
    def label(self) -> str:
        """`sentiment/3`"""
        return f"{self.name}/{self.revision.number}"


class Tasks:
    """Reads and changes the tasks of one database; methods raise InvalidRequest for what is no name."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock

    def set(
        self, tenant: str, name: str, spec: TaskSpec, *, if_match: str | None, actor: str, reason: str | None
    ) -> tuple[Task, bool]:
        """Make `spec` what the name means; True where the name is new.

        A content that the name had before is that revision again, so that setting it goes back; one that it has now
        changes nothing and is no event.

        Args:
            if_match: digest that the live revision must have, ABSENT, PRESENT, or None for whatever there is.

        Raises:
            InvalidRequest: the name or the spec.
            PreconditionFailed: the live revision is another.
        """
        check_name(name, what="task")
        check_spec(spec)
        text = json.dumps(spec.to_json(), allow_nan=False)
        with self._database.transaction() as tx:
            before = _find(tx, tenant, name)
            _check_expected(name, before, if_match)
            if before is not None and before.revision.digest == sha256(text):
                return before, False
            now = timestamp(self._clock())
            number = _number_of(tx, tenant, name, sha256(text)) or _insert(tx, tenant, name, text, actor, reason, now)
            tx.execute(delete(tasks).where(_at(tenant, name)))
            row = {"tenant": tenant, "name": name, "revision": number, "updated_at": now, "updated_by": actor}
            tx.execute(tasks.insert().values(row))
            after = _find(tx, tenant, name)
            assert after is not None, "it was just written"
            _tell(tx, SET, before, after, actor, reason, now)
            return after, before is None

    def remove(self, tenant: str, name: str, *, if_match: str | None, actor: str, reason: str | None) -> None:
        """Let the name mean nothing; its revisions stay, and it counts on from them when it is set again.

        Raises:
            NotFound: it means nothing.
            PreconditionFailed: the live revision is another.
        """
        with self._database.transaction() as tx:
            before = _find(tx, tenant, name)
            if before is None:
                raise no_task(name)
            _check_expected(name, before, if_match)
            tx.execute(delete(tasks).where(_at(tenant, name)))
            _tell(tx, REMOVED, before, None, actor, reason, timestamp(self._clock()))

    def show(self, tenant: str, name: str) -> Task:
        """Raises NotFound."""
        with self._database.reading() as tx:
            found = _find(tx, tenant, name)
        if found is None:
            raise no_task(name)
        return found

    def list(self, tenant: str, *, page_size: int = 100, page_token: str | None = None) -> Page[Task]:
        """By name; pass `next_page_token` on to get the next ones."""
        check_page_size(page_size)
        query = _live().where(tasks.c.tenant == tenant)
        if page_token:
            if not is_name(page_token):
                raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
            query = query.where(tasks.c.name > page_token)
        with self._database.reading() as tx:
            rows = tx.execute(query.order_by(tasks.c.name).limit(page_size + 1)).all()
        found = tuple(_task(row) for row in rows[:page_size])
        return Page(found, found[-1].name if len(rows) > page_size else None)

    def revisions(
        self, tenant: str, name: str, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[Revision]:
        """Every content that the name had, the newest first, also when it means nothing now; raises NotFound."""
        check_page_size(page_size)
        query = select(task_revisions).where(_of(tenant, name))
        if page_token:
            if not (page_token.isascii() and page_token.isdecimal() and len(page_token) < 10):
                raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
            query = query.where(task_revisions.c.number < int(page_token))
        with self._database.reading() as tx:
            rows = tx.execute(query.order_by(task_revisions.c.number.desc()).limit(page_size + 1)).all()
        if not rows and not page_token:
            raise no_task(name)
        found = tuple(_revision(row) for row in rows[:page_size])
        return Page(found, str(found[-1].number) if len(rows) > page_size else None)


def no_task(name: str) -> NotFound:
    """What is said of a name that means nothing, or that is none: one and the same."""
    return NotFound(f"The task {name[:200]!r} does not exist. GET /api/v1/tasks lists what there is.")


def live_tasks(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], Task]:
    """By (tenant, name)."""
    return {(row.tenant, row.name): _task(row) for row in tx.execute(_live().where(where))}


def _find(tx: Transaction, tenant: str, name: str) -> Task | None:
    return live_tasks(tx, _at(tenant, name)).get((tenant, name))


def _number_of(tx: Transaction, tenant: str, name: str, digest: str) -> int | None:
    """The revision that has this content."""
    same = select(task_revisions.c.number).where(_of(tenant, name), task_revisions.c.digest == digest)
    number: int | None = tx.execute(same).scalar()
    return number


def _insert(tx: Transaction, tenant: str, name: str, text: str, actor: str, reason: str | None, at: str) -> int:
    last = select(func.coalesce(func.max(task_revisions.c.number), 0)).where(_of(tenant, name))
    number = int(tx.execute(last).scalar_one()) + 1
    row = {"tenant": tenant, "name": name, "number": number, "digest": sha256(text), "spec": text, "reason": reason}
    tx.execute(task_revisions.insert().values({**row, "created_at": at, "created_by": actor}))
    return number


def _check_expected(name: str, actual: Task | None, expected: str | None) -> None:
    if expected is None or (expected == PRESENT and actual):
        return
    digest = actual.revision.digest if actual else ABSENT
    if digest != expected:
        where = f"at revision {actual.revision.number} ({digest})" if actual else "not set"
        raise PreconditionFailed(f"The task {name} is {where}, not at {expected} as you expected; look again.")


def _tell(
    tx: Transaction, kind: str, before: Task | None, after: Task | None, actor: str, reason: str | None, at: str
) -> None:
    there = after or before
    assert there is not None, "one of them is there"
    payload = {"from": _brief(before), "to": _brief(after), "reason": reason}
    events.append(tx, there.tenant, actor, kind, f"{SUBJECTS}{there.name}", payload, at=at)


def _brief(task: Task | None) -> dict[str, Any] | None:
    return None if task is None else {"revision": task.revision.number, "digest": task.revision.digest}


def _live() -> Select[Any]:
    same = and_(
        task_revisions.c.tenant == tasks.c.tenant,
        task_revisions.c.name == tasks.c.name,
        task_revisions.c.number == tasks.c.revision,
    )
    return select(task_revisions, tasks.c.updated_at, tasks.c.updated_by).join(tasks, same)


def _task(row: Row[Any]) -> Task:
    return Task(row.tenant, row.name, _revision(row), row.updated_at, row.updated_by)


def _revision(row: Row[Any]) -> Revision:
    spec = TaskSpec.model_validate_json(row.spec)
    return Revision(row.number, row.digest, spec, row.reason, row.created_at, row.created_by)


def _at(tenant: str, name: str) -> ColumnElement[bool]:
    return and_(tasks.c.tenant == tenant, tasks.c.name == name)


def _of(tenant: str, name: str) -> ColumnElement[bool]:
    return and_(task_revisions.c.tenant == tenant, task_revisions.c.name == name)
