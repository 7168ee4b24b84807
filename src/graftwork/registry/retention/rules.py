"""Rules: which versions of an adapter may go by themselves; a pure decision, and the SQL of what was decided on."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import and_, delete, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import is_name
from graftwork.db import Database, Transaction
from graftwork.db.schema import retention_rules
from graftwork.errors import InvalidRequest, NotFound
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.owners import RETENTION, disown
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.reading import view_of
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView

RULES_SET: Final = "retention.set"
RULES_REMOVED: Final = "retention.removed"
SUBJECT: Final = "retention"
#: As an adapter's name: all adapters of a tenant that have no rules of their own.
EVERY: Final = ""


@dataclass(frozen=True)
class Rules:
    """What stays; by default everything does. Holders come before any of it.

    keep_last: so many of the newest versions; None is all.
    keep_days: and those younger than so many days.
    keep_production: and every one that ever was in production.
    archived_days: archived ones older than so many days go even if they are among the newest; None is as the others.
    keep_rollbacks: so many rollbacks stay possible.
    """

    keep_last: int | None = None
    keep_days: int = 0
    keep_production: bool = True
    archived_days: int | None = None
    keep_rollbacks: int = 3

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def going(rules: Rules, view: AdapterView, promoted: Container[int], now: datetime) -> Iterator[tuple[Version, str]]:
    """The versions that no rule keeps, each with why; `promoted` were in production at some time, by sequence number.

    The newest version always stays: it is what a bare name means while nothing is in production.
    """
    for older_than, version in enumerate(view.versions, 1):
        place = len(view.versions) - older_than  # 0 is the newest
        age = now - datetime.fromisoformat(version.created_at)
        if place == 0 or (rules.keep_production and version.sequence in promoted):
            continue
        if version.stage == "archived" and rules.archived_days is not None:
            if age > timedelta(days=rules.archived_days):
                yield version, f"archived, and older than {rules.archived_days} days"
        elif rules.keep_last is not None and place >= rules.keep_last and age >= timedelta(days=rules.keep_days):
            yield version, f"not of the last {rules.keep_last}, and not younger than {rules.keep_days} days"


class Retention:
    """Keeps the rules of one database."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock

    def set(self, tenant: str, adapter: str, rules: Rules, *, actor: str) -> None:
        """The rules of an adapter, or of `EVERY`; what there was is replaced.

        Raises:
            NotFound: there is no such adapter.
        """
        with self._database.transaction() as tx:
            if adapter != EVERY:
                view_of(tx, tenant, adapter)
            before, at = _own(tx, tenant, adapter), timestamp(self._clock())
            if before == rules:
                return
            _remove(tx, tenant, adapter)
            row = {"tenant": tenant, "adapter": adapter, "spec": canonical(rules.to_json(), what="spec")}
            tx.execute(retention_rules.insert().values({**row, "updated_at": at, "updated_by": actor}))
            _tell(tx, tenant, adapter, actor, RULES_SET, before, rules, at)

    def remove(self, tenant: str, adapter: str, *, actor: str) -> None:
        """From now on the tenant's rules hold for the adapter, or without `EVERY`'s none: everything stays.

        Raises:
            NotFound: it has none of its own.
        """
        with self._database.transaction() as tx:
            if not drop_rules(tx, tenant, adapter, actor=actor, at=timestamp(self._clock())):
                raise NotFound(f"There are no retention rules for {adapter or 'all adapters'}.")

    def list(self, tenant: str, *, page_size: int = 100, page_token: str | None = None) -> Page[tuple[str, Rules]]:
        """All rules by adapter, those of `EVERY` first; pass `next_page_token` on to get the next ones."""
        check_page_size(page_size)
        if page_token and page_token != "-" and not is_name(page_token):
            raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
        query = select(retention_rules.c.adapter, retention_rules.c.spec).where(retention_rules.c.tenant == tenant)
        if page_token:
            query = query.where(retention_rules.c.adapter > page_token.removeprefix("-"))
        with self._database.reading() as tx:
            rows = tx.execute(query.order_by(retention_rules.c.adapter).limit(page_size + 1)).all()
        found = [(row.adapter, Rules(**parse(row.spec))) for row in rows]
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), (found[page_size - 1][0] or "-") if more else None)


def rules_of(tx: Transaction, tenant: str, adapter: str) -> Rules:
    """What holds for an adapter: its own rules, else the tenant's, else that everything stays."""
    return _own(tx, tenant, adapter) or _own(tx, tenant, EVERY) or Rules()


def drop_rules(tx: Transaction, tenant: str, adapter: str, *, actor: str, at: str) -> bool:
    """Take an adapter's own rules away; False where it has none."""
    before = _own(tx, tenant, adapter)
    if before is None:
        return False
    _remove(tx, tenant, adapter)
    disown(tx, tenant, [(RETENTION, adapter)])
    _tell(tx, tenant, adapter, actor, RULES_REMOVED, before, None, at)
    return True


def has_rules(tx: Transaction, tenant: str) -> bool:
    """Whether any rule could let anything of the tenant go."""
    return tx.execute(select(retention_rules.c.adapter).where(retention_rules.c.tenant == tenant)).first() is not None


def _own(tx: Transaction, tenant: str, adapter: str) -> Rules | None:
    spec = tx.execute(select(retention_rules.c.spec).where(_at(tenant, adapter))).scalar()
    return None if spec is None else Rules(**parse(spec))


def _remove(tx: Transaction, tenant: str, adapter: str) -> None:
    tx.execute(delete(retention_rules).where(_at(tenant, adapter)))


def _at(tenant: str, adapter: str) -> Any:
    return and_(retention_rules.c.tenant == tenant, retention_rules.c.adapter == adapter)


def _tell(
    tx: Transaction,
    tenant: str,
    adapter: str,
    actor: str,
    kind: str,
    before: Rules | None,
    after: Rules | None,
    at: str,
) -> None:
    payload = {"from": before.to_json() if before else None, "to": after.to_json() if after else None}
    events.append(tx, tenant, actor, kind, subject_of(adapter) if adapter else SUBJECT, payload, at=at)
