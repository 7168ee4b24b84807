"""Tenants, users, keys and grants in a database, of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from graftwork.access import events
from graftwork.access.access import Access, read_access
from graftwork.access.events import Event, read_events
from graftwork.access.keys import hash_of
from graftwork.access.quotas import Quotas
from graftwork.access.tenants import LOCAL, Tenant
from graftwork.db import Database
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.idempotency import Once
from graftwork.registry.snapshot import SnapshotReader
from graftwork.registry.tenancy import Tenancy

ONCE = Once("a", "sha256:" + "0" * 64)


@dataclass
class Office:
    """A database, what writes to it, and a clock that is set by hand."""

    database: Database
    now: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def __post_init__(self) -> None:
        self.set_up = Tenancy.of(self.database, lambda: self.now)
        self.snapshots = SnapshotReader(self.database, {Access: read_access})

    @property
    def access(self) -> Access:
        return self.snapshots.current().part(Access)

    @property
    def at(self) -> str:
        return self.now.isoformat(timespec="microseconds").replace("+00:00", "Z")

    def events(self, tenant: str = "acme") -> list[Event]:
        with self.database.reading() as tx:
            return read_events(tx, tenant)

    def key(self, **more: object) -> tuple[str, str]:
        """Id and whole of a new key."""
        wanted = {"name": "ci", "role": "deployer", "scopes": ("read", "manage"), "actor": "me"} | more
        key, token = self.set_up.keys.create("acme", **wanted)  # type: ignore[arg-type]
        assert token is not None
        return key.id, token

    def knows(self, token: str) -> bool:
        return self.access.identify(token, self.at) is not None


@pytest.fixture
def office(database_url: str) -> Iterator[Office]:
    with Database(database_url) as database:
        yield Office(database)


def test_a_tenant_is_set_up_once_and_changed_with_events_that_tell_no_secret(office: Office) -> None:
    tenants = office.set_up.tenants
    made, created = tenants.create(Tenant("acme", "Acme", quotas=Quotas(concurrent=3)), actor="me", once=ONCE)
    assert created and tenants.create(Tenant("acme", "Acme"), actor="me", once=ONCE)[1] is False
    with pytest.raises(Conflict, match="acme"):
        tenants.create(Tenant("acme"), actor="me")
    changed = tenants.change("acme", {"weight": 2.0, "quotas": {"concurrent": None, "adapters": 5}}, actor="me")
    assert (changed.display_name, changed.weight) == ("Acme", 2.0)
    assert changed.quotas == Quotas(adapters=5)
    assert tenants.change("acme", {"weight": 2.0}, actor="me") == changed
    assert office.access.tenant("acme") == changed and len(made.salt) == 64
    assert [event.kind for event in office.events()] == ["tenant.created", "tenant.changed"]
    assert office.events()[1].payload["before"].keys() == {"weight", "quotas"}
    assert made.salt not in str([event.payload for event in office.events()])


def test_the_local_tenant_is_there_without_having_been_made(office: Office) -> None:
    assert office.access.tenant(LOCAL) == Tenant(LOCAL)
    with pytest.raises(Conflict):
        office.set_up.tenants.create(Tenant(LOCAL), actor="me")
    office.set_up.tenants.change(LOCAL, {"weight": 3.0}, actor="me")
    assert office.access.tenant(LOCAL).weight == 3.0 and office.access.tenant(LOCAL).salt
    with pytest.raises(NotFound):
        office.set_up.tenants.change("nobody", {"weight": 3.0}, actor="me")


def test_a_key_lives_until_it_is_revoked_and_its_secret_is_nowhere(office: Office) -> None:
    public, token = office.key()
    assert office.knows(token)
    with office.database.reading() as tx:
        rows = str(tx.exec_driver_sql("SELECT * FROM api_keys").all())
    assert token[-43:] not in rows and hash_of(token) in rows
    told = str([event.to_json() for event in office.events()])
    assert public in told and token[-43:] not in told and hash_of(token) not in told
    office.set_up.keys.revoke("acme", public, actor="me", reason="lost")
    office.set_up.keys.revoke("acme", public, actor="me")
    assert not office.knows(token)
    assert [event.kind for event in office.events()] == ["key.created", "key.revoked"]
    with pytest.raises(Conflict, match="revoked"):
        office.set_up.keys.rotate("acme", public, timedelta(0), actor="me")


def test_another_tenants_key_is_not_there(office: Office) -> None:
    public, token = office.key()
    with pytest.raises(NotFound):
        office.set_up.keys.revoke("zeta", public, actor="me")
    with pytest.raises(NotFound):
        office.set_up.keys.rotate("zeta", public, timedelta(0), actor="me")
    assert office.knows(token)


def test_a_rotated_key_overlaps_with_its_successor_and_no_longer(office: Office) -> None:
    public, old = office.key(expires_at="2026-02-01T00:00:00.000000Z")
    key, new = office.set_up.keys.rotate("acme", public, timedelta(hours=1), actor="me")
    assert new is not None and office.knows(old) and office.knows(new)
    assert (key.role, key.scopes, key.family) == ("deployer", ("read", "manage"), public)
    office.now += timedelta(hours=1)
    assert not office.knows(old) and office.knows(new)
    office.now = datetime(2026, 2, 1, tzinfo=UTC)
    assert not office.knows(new)  # as long as the first one was to hold


def test_the_same_request_makes_one_key_and_tells_it_once(office: Office) -> None:
    wanted = {"name": "", "role": "viewer", "scopes": ("read",), "actor": "me", "once": ONCE}
    key, token = office.set_up.keys.create("acme", **wanted)  # type: ignore[arg-type]
    again, nothing = office.set_up.keys.create("acme", **wanted)  # type: ignore[arg-type]
    assert token is not None and nothing is None and again.id == key.id
    assert len(office.access.keys) == 1


def test_a_key_that_would_be_over_or_of_nobody_is_refused(office: Office) -> None:
    with pytest.raises(InvalidRequest, match="past"):
        office.key(expires_at=office.at)
    with pytest.raises(InvalidRequest, match="no user ann"):
        office.key(user="ann")


def test_a_user_who_is_struck_off_takes_their_keys_along(office: Office) -> None:
    users = office.set_up.users
    user, created = users.put("acme", "ann", "deployer", "Ann", actor="me")
    assert created and users.put("acme", "ann", "deployer", "Ann", actor="me") == (user, False)
    _, token = office.key(user="ann")
    assert office.knows(token)
    users.put("acme", "ann", "viewer", "Ann", actor="me")
    assert office.access.users["acme", "ann"] == replace(user, role="viewer")
    users.remove("acme", "ann", actor="me")
    assert not office.knows(token)
    with pytest.raises(NotFound):
        users.remove("acme", "ann", actor="me")
    with pytest.raises(InvalidRequest):
        users.put("acme", LOCAL, "admin", "", actor="me")
    assert [event.kind for event in office.events()] == ["user.set", "key.created", "user.set", "user.removed"]


def test_a_grant_is_given_once_and_taken_back_by_its_giver_only(office: Office) -> None:
    grants = office.set_up.grants
    grant, created = grants.create("acme", "zeta", "tone-*", ("see", "call"), actor="me")
    assert created and grant.verbs == ("call", "see")
    assert grants.create("acme", "zeta", "tone-*", ("call", "see"), actor="me") == (grant, False)
    with pytest.raises(Conflict, match="call see"):
        grants.create("acme", "zeta", "tone-*", ("call",), actor="me")
    with pytest.raises(InvalidRequest):
        grants.create("acme", "acme", "tone-*", ("call",), actor="me")
    assert office.access.may("zeta", "see", "acme", "tone-a")
    with pytest.raises(NotFound):
        grants.remove("zeta", grant.id, actor="me")
    grants.remove("acme", grant.id, actor="me")
    assert not office.access.may("zeta", "see", "acme", "tone-a")
    assert [event.kind for event in office.events()] == ["grant.created", "grant.removed"]


def test_who_may_what_is_read_again_only_when_something_of_it_changed(office: Office) -> None:
    office.key()
    before = office.access
    with office.database.transaction() as tx:
        events.append(tx, "acme", "me", "alias.moved", "adapters/tone", {}, at=office.at)
    assert office.access is before
    office.key()
    assert office.access is not before
