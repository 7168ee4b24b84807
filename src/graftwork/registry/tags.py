"""Tags: keys and values that somebody gives to a version or to a whole adapter after it was pushed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import Row, and_, delete, func, select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import check_name
from graftwork.db import Database, Transaction
from graftwork.db.index_terms import number_in
from graftwork.db.keys import rows_at
from graftwork.db.schema import tags
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.reading import check_adapter, nowhere, parsed
from graftwork.registry.reference import Newest, Reference
from graftwork.registry.resolving import resolve
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version

SET: Final = "tag.set"
REMOVED: Final = "tag.removed"
MAX_VALUE = 256  # characters
MAX_TAGS = 64  # of one version, or of an adapter itself


class Tags:
    """Reads and changes tags; whoever sets one last wins, and the history has everybody.

    A reference with a version, an alias or a digest means that version; a bare name means the adapter itself, whose
    tags count for all its versions. Methods raise InvalidRequest for malformed references and keys, NotFound for
    what is not there.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def list(self, tenant: str, reference: Reference | str) -> list[dict[str, Any]]:
        """`{"key", "value", "updated_at", "updated_by"}` of each tag, by key."""
        with self._database.reading() as tx:
            name, version = _meant(tx, tenant, reference)
            rows = tx.execute(select(tags).where(_of(tenant, name, version)).order_by(tags.c.key))
            return [_told(row) for row in rows]

    def set(self, tenant: str, reference: Reference | str, key: str, value: str, *, actor: str) -> dict[str, Any]:
        """Give a tag, over whatever it was; no event when it is that already.

        Raises:
            InvalidRequest: the key is no name, or the value is not 1 to 256 characters without control characters.
            Conflict: there are 64 tags already.
        """
        check_name(key, what="tag")
        if not 0 < len(value) <= MAX_VALUE or not value.isprintable():
            raise InvalidRequest(
                f"The value of the tag {key} must be 1 to {MAX_VALUE} characters, none of them a control character.",
                field="value",
            )
        with self._database.transaction() as tx:
            name, version = _meant(tx, tenant, reference)
            before = _find(tx, tenant, name, version, key)
            if before is not None and before.text == value:
                return _told(before)
            where = _of(tenant, name, version)
            if before is None and tx.execute(select(func.count()).where(where)).scalar_one() >= MAX_TAGS:
                raise Conflict(f"{name} has {MAX_TAGS} tags there already; remove one first.")
            tx.execute(delete(tags).where(where, tags.c.key == key))
            row = {
                "tenant": tenant,
                "adapter": name,
                "sequence": version.sequence if version else 0,
                "key": key,
                "text": value,
                "number": number_in(value),
                "updated_at": timestamp(self._clock()),
                "updated_by": actor,
            }
            tx.execute(tags.insert().values(row))
            self._append(tx, tenant, name, version, key, before, value, actor)
            after = _find(tx, tenant, name, version, key)
            assert after is not None, "it was just written"
            return _told(after)

    def remove(self, tenant: str, reference: Reference | str, key: str, *, actor: str) -> None:
        """Take a tag away; NotFound where there is none."""
        with self._database.transaction() as tx:
            name, version = _meant(tx, tenant, reference)
            before = _find(tx, tenant, name, version, check_name(key, what="tag"))
            if before is None:
                raise NotFound(f"There is no tag {key} there. `graftwork tag list` shows what there is.")
            tx.execute(delete(tags).where(_of(tenant, name, version), tags.c.key == key))
            self._append(tx, tenant, name, version, key, before, None, actor)

    def _append(
        self,
        tx: Transaction,
        tenant: str,
        name: str,
        version: Version | None,
        key: str,
        before: Row[Any] | None,
        after: str | None,
        actor: str,
    ) -> None:
        payload = {
            **(version.brief() if version else {}),
            "key": key,
            "from": before.text if before else None,
            "to": after,
        }
        kind, at = REMOVED if after is None else SET, timestamp(self._clock())
        events.append(tx, tenant, actor, kind, subject_of(name), payload, at=at)


def tags_of(tx: Transaction, tenant: str, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], dict[str, str]]:
    """Tags of these (adapter, sequence) pairs, 0 for the adapter itself; those without are left out."""
    keys = [(tenant, adapter, sequence) for adapter, sequence in wanted]
    found: dict[tuple[str, int], dict[str, str]] = {}
    for row in rows_at(tx, select(tags), (tags.c.tenant, tags.c.adapter, tags.c.sequence), keys):
        found.setdefault((row.adapter, row.sequence), {})[row.key] = row.text
    return found


def _meant(tx: Transaction, tenant: str, reference: Reference | str) -> tuple[str, Version | None]:
    wanted = parsed(reference)
    if not isinstance(wanted.selector, Newest):
        version = resolve(tx, tenant, wanted)
        return version.adapter, version
    if wanted.tenant not in (None, tenant):
        raise nowhere(f"{wanted.tenant}/{wanted.name}")
    check_adapter(tx, tenant, wanted.name)
    return wanted.name, None


def _of(tenant: str, name: str, version: Version | None) -> Any:
    sequence = version.sequence if version else 0
    return and_(tags.c.tenant == tenant, tags.c.adapter == name, tags.c.sequence == sequence)


def _find(tx: Transaction, tenant: str, name: str, version: Version | None, key: str) -> Row[Any] | None:
    return tx.execute(select(tags).where(_of(tenant, name, version), tags.c.key == key)).first()


def _told(row: Row[Any]) -> dict[str, Any]:
    return {"key": row.key, "value": row.text, "updated_at": row.updated_at, "updated_by": row.updated_by}
