"""Webhooks on both databases: which events are queued, once each; secrets, cursors, and what is kept of them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from standardwebhooks.webhooks import Webhook as Reader
from standardwebhooks.webhooks import WebhookVerificationError

from graftwork.access import events
from graftwork.artifacts.keyring import Keyring
from graftwork.db.lease import Held, Lease
from graftwork.db.schema import webhook_deliveries, webhooks
from graftwork.db.time import DatabaseClock
from graftwork.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from graftwork.registry.webhooks.deliveries import KEPT, Deliveries, Message, Place
from graftwork.registry.webhooks.outcome import Outcome
from graftwork.registry.webhooks.secrets import Secrets
from graftwork.registry.webhooks.webhooks import MOST, Webhooks
from support.desk import Desk

URL = "https://hooks.example/T0/secret-path"
PLACE = Place("local", "chat", True)
KEYS = Keyring("k1", {"k1": b"1" * 32}, {})


class SetClock:
    """The database's clock, and what a test adds to it."""

    def __init__(self, desk: Desk) -> None:
        self._real, self.ahead = DatabaseClock(desk.database), timedelta()

    def __call__(self) -> datetime:
        return self._real() + self.ahead


@dataclass
class Post:
    """Webhooks and deliveries of one desk, and the right to send."""

    desk: Desk
    clock: SetClock
    hooks: Webhooks
    deliveries: Deliveries
    held: Held
    secret: str = ""

    def add(self, name: str = "chat", *patterns: str, subjects: tuple[str, ...] = (), tenant: str = "local") -> None:
        _, secret = self.hooks.set(tenant, name, URL, patterns or ("*",), subjects, actor="ann")
        self.secret = secret or self.secret

    def tell(self, kind: str, subject: str = "adapters/tone", tenant: str = "local") -> int:
        with self.desk.database.transaction() as tx:
            return events.append(tx, tenant, "ann", kind, subject, {}, at="2026-01-31T09:30:00.000000Z").position

    def queue(self, after: int = 0) -> int:
        return self.deliveries.queue(after, self.held)

    def kinds(self, name: str = "chat", **wanted: str) -> list[str]:
        return [one.kind for one in reversed(self.hooks.deliveries("local", name, **wanted).items)]  # type: ignore[arg-type]

    def next(self) -> Message:
        message = self.deliveries.next_of(PLACE)
        assert message is not None
        return message


def post_of(desk: Desk, secrets: Secrets) -> Post:
    held, clock = Lease(desk.database, "webhooks", "me", 600.0).hold(), SetClock(desk)
    assert held is not None
    hooks = Webhooks(desk.database, secrets, clock=clock)
    return Post(desk, clock, hooks, Deliveries(desk.database, secrets, clock, chance=lambda: 1.0), held)


@pytest.fixture
def post(desk: Desk) -> Post:
    return post_of(desk, Secrets())


def test_events_are_queued_once_by_kind_subject_and_tenant_from_when_it_was_set(post: Post) -> None:
    post.tell("version.created")
    post.add("chat", "version.*", "rollout.aborted", subjects=("adapters/tone", "rollouts/*"))
    for kind, subject, tenant in (
        ("version.created", "adapters/tone", "local"),
        ("versions.pushed", "adapters/tone", "local"),
        ("version.created", "adapters/tone2", "local"),
        ("version.created", "adapters/tone", "other"),
        ("rollout.aborted", "rollouts/any", "local"),
        ("rollout.started", "rollouts/any", "local"),
    ):
        post.tell(kind, subject, tenant)
    last = post.queue()
    assert post.queue() == post.queue(last) == last
    assert post.kinds() == ["version.created", "rollout.aborted"]


def test_what_is_changed_is_caught_up_with_as_it_was(post: Post) -> None:
    post.add("chat", "version.*")
    post.tell("version.created")
    post.tell("alias.set")
    post.add("chat", "alias.*")
    post.tell("version.created")
    post.tell("alias.removed")
    post.queue()
    assert post.kinds() == ["version.created", "alias.removed"]


def test_cursors_follow_a_log_that_nobody_wants_and_many_pages_are_one_look(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graftwork.registry.webhooks.deliveries.PAGE", 4)
    post.add("chat", "alias.*")
    for _ in range(9):
        post.tell("version.created")
    last = post.tell("alias.set")
    assert post.queue() == last and post.kinds() == ["alias.set"]
    for _ in range(4):
        last = post.queue(post.tell("version.created") - 1)
    start = post.deliveries.start()
    assert start is not None and last - start < 4


def test_a_message_is_signed_as_the_standards_own_library_reads_it(post: Post) -> None:
    post.add()
    position = post.tell("rollout.aborted", "rollouts/tone")
    post.queue()
    assert post.next().delivery.kind == "webhook.set"
    post.deliveries.settle(post.next().delivery, Outcome(204), post.held)
    message = post.next()
    said = Reader(post.secret).verify(message.body, message.headers)
    assert (said["type"], said["timestamp"]) == ("rollout.aborted", "2026-01-31T09:30:00.000000Z")
    assert (said["data"]["position"], said["data"]["subject"]) == (position, "rollouts/tone")
    with pytest.raises(WebhookVerificationError):
        Reader(post.secret).verify(message.body + b" ", message.headers)


def test_a_rotated_secret_signs_beside_the_one_before_until_the_overlap_ends(post: Post) -> None:
    post.add()
    old = post.secret
    _, new = post.hooks.rotate("local", "chat", overlap=timedelta(seconds=60), actor="ann")
    post.queue()
    for secret in (old, new):
        message = post.next()
        Reader(secret).verify(message.body, message.headers)
    post.clock.ahead = timedelta(seconds=90)
    message = post.next()
    Reader(new).verify(message.body, message.headers)
    with pytest.raises(WebhookVerificationError):
        Reader(old).verify(message.body, message.headers)


def test_secrets_are_sealed_where_there_is_a_keyring_and_open_in_their_place_only(desk: Desk) -> None:
    post = post_of(desk, Secrets(KEYS))
    post.add()
    with desk.database.reading() as tx:
        row = tx.execute(select(webhooks)).one()
        log = json.dumps([one.to_json() for one in events.read_events(tx, "local")])
    assert row.secret.startswith("sealed:") and base64.b64decode(post.secret[6:]) not in base64.b64decode(
        row.secret[7:]
    )
    assert post.secret not in log and "secret-path" not in log
    post.queue()
    assert post.next().problem is None
    assert Secrets(KEYS).open("local", row.id, row.secret) == post.secret
    for secrets, tenant in (
        (Secrets(KEYS), "other"),
        (Secrets(), "local"),
        (Secrets(Keyring("k", {"k": b"2" * 32}, {})), "local"),
    ):
        with pytest.raises(Exception, match="rotate it"):
            secrets.open(tenant, row.id, row.secret)
    message = Deliveries(desk.database, Secrets(), post.clock).next_of(PLACE)
    assert message is not None and "rotate it" in (message.problem or "") and message.headers == {}


def test_what_fails_waits_is_given_up_and_is_tried_again_when_somebody_says_so(post: Post) -> None:
    post.add("chat", "version.*")
    post.tell("version.created")
    post.queue()
    first = post.next().delivery
    assert post.deliveries.settle(first, Outcome(503, retry_after_s=60), post.held) == "pending"
    assert post.deliveries.next_of(PLACE) is None
    assert post.deliveries.places() == [Place("local", "chat", False)]
    post.clock.ahead = timedelta(seconds=61)
    again = post.next().delivery
    assert (again.id, again.attempts, again.answered, again.error) == (first.id, 1, 503, "answered 503")
    post.clock.ahead = timedelta(days=2)
    assert post.deliveries.settle(again, Outcome(error="no answer"), post.held) == "failed"
    assert (post.deliveries.places(), post.kinds(status="failed")) == ([], ["version.created"])
    assert post.hooks.retry("local", "chat") == 1 and post.hooks.retry("local", "chat") == 0
    third = post.next().delivery
    assert (third.id, third.attempts) == (first.id, 0)
    assert post.deliveries.settle(third, Outcome(204), post.held) == "delivered"
    with pytest.raises(Conflict, match="is delivered"):
        post.hooks.retry("local", "chat", first.id)
    with pytest.raises(NotFound):
        post.hooks.retry("local", "chat", "msg_none")


def test_who_lost_the_lease_writes_nothing(post: Post) -> None:
    post.add("chat", "version.*")
    post.tell("version.created")
    post.queue()
    delivery = post.next().delivery
    Lease(post.desk.database, "webhooks", "me").release()
    assert Lease(post.desk.database, "webhooks", "you").hold() is not None
    post.tell("version.created")
    post.queue()
    assert post.deliveries.settle(delivery, Outcome(204), post.held) is None
    assert post.kinds(status="pending") == ["version.created"]


def test_settled_ones_are_forgotten_in_time_and_pending_ones_are_not(post: Post) -> None:
    post.add("chat", "version.*")
    for _ in range(2):
        post.tell("version.created")
    post.queue()
    post.deliveries.settle(post.next().delivery, Outcome(204), post.held)
    post.clock.ahead = KEPT + timedelta(seconds=1)
    post.queue(post.tell("version.created") - 1)
    assert [(one.number, one.status) for one in post.hooks.deliveries("local", "chat").items] == [
        (3, "pending"),
        (2, "pending"),
    ]


def test_a_webhook_is_its_tenants_and_every_change_of_it_is_an_event(post: Post) -> None:
    post.add("chat", "version.*")
    post.add("chat", "version.*")
    made = post.hooks.show("local", "chat")
    with pytest.raises(PreconditionFailed):
        post.hooks.set("local", "chat", URL, ["*"], actor="ann", if_match="absent")
    changed, secret = post.hooks.set("local", "chat", URL, ["*"], actor="ann", if_match=made.etag)
    assert (changed.id, secret) == (made.id, None)
    post.hooks.rotate("local", "chat", actor="ann")
    for refused in (lambda: post.hooks.show("other", "chat"), lambda: post.hooks.test("other", "chat")):
        with pytest.raises(NotFound):
            refused()
    post.hooks.test("local", "chat")
    post.hooks.remove("local", "chat", actor="ann", if_match=None)
    with post.desk.database.reading() as tx:
        kinds = [one.kind for one in events.read_events(tx, "local", "webhooks/chat")]
        assert tx.execute(select(webhook_deliveries)).all() == []
    assert kinds == ["webhook.set", "webhook.set", "webhook.rotated", "webhook.removed"]
    post.add("chat", "version.*")
    assert post.hooks.show("local", "chat").id != made.id


def test_there_are_so_many_and_no_more_and_they_come_by_pages(post: Post) -> None:
    for number in range(MOST):
        post.add(f"hook-{number:02}")
    post.add("hook-00", tenant="other")
    with pytest.raises(Conflict, match="remove one"):
        post.add("one-more")
    first = post.hooks.list("local", page_size=20)
    rest = post.hooks.list("local", page_size=20, page_token=first.next_page_token)
    assert [one.name for one in (*first.items, *rest.items)] == [f"hook-{number:02}" for number in range(MOST)]
    for _ in range(3):
        post.hooks.test("local", "hook-00")
    page = post.hooks.deliveries("local", "hook-00", page_size=2)
    assert ([one.number for one in page.items], page.next_page_token) == ([3, 2], "2")
    assert len({one.id for one in page.items}) == 2
    for token in ("x", "-1", "9" * 30):
        with pytest.raises(InvalidRequest):
            post.hooks.deliveries("local", "hook-00", page_token=token)
