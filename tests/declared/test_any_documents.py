"""Whatever is applied, in whatever order and by whomever, is so afterwards; and nothing else was touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.access.roles import ALL
from graftwork.db import Database
from graftwork.declared.applier import Applier, Asked
from graftwork.declared.desk import Services
from graftwork.declared.document import read_documents
from graftwork.declared.plan import digest_of
from graftwork.protocol.declared import Prune
from graftwork.registry.webhooks.secrets import Secrets
from graftwork.registry.webhooks.webhooks import Webhooks
from graftwork.traffic.records.recording import Recordings
from graftwork.traffic.rollouts.rollouts import Rollouts
from support.documents import Document, document, route, task, template

NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path_factory.mktemp('declared') / 'registry.db'}") as database:
        yield database


def applier(database: Database) -> Applier:
    services = Services.of(
        database,
        "base",
        rollouts=Rollouts(database),
        webhooks=Webhooks(database, Secrets()),
        recordings=Recordings(database, can_seal=False),
    )
    return Applier(database, services, "base")


def asked(tenant: str, documents: list[Document], set: str = "ours", prune: Prune | None = None) -> Asked:
    return Asked(tenant, "me", ALL, read_documents(documents), set, prune)


def one_of(name: str) -> st.SearchStrategy[Document]:
    number = st.integers(1, 3)
    return st.one_of(
        number.map(lambda n: route(name, f"tone:{n}.0.0")),
        number.map(lambda n: task(name, *"xyz"[:n])),
        number.map(lambda n: template(name, n / 10)),
        number.map(lambda n: document("Webhook", name, url=f"https://example.com/{n}", events=["*"])),
        number.map(lambda n: document("Grant", None, tenant="other", pattern=name, verbs=["call", "see"][: n % 2 + 1])),
        number.map(lambda n: document("Policy", None, approval={"needed": n})),
        number.map(lambda n: document("Retention", None, keepLast=n)),
        number.map(lambda n: document("Recording", None, keepDays=n)),
    )


def distinct(documents: list[Document]) -> list[Document]:
    read = {(one["kind"], one["metadata"].get("name"), one["spec"].get("pattern")): one for one in documents}
    return list(read.values())


DOCUMENTS = st.lists(st.sampled_from(NAMES).flatmap(one_of), max_size=6).map(distinct)
CHANGE = st.tuples(st.sampled_from(["ours", "theirs"]), DOCUMENTS, st.sampled_from([None, "set", "all"]))


@pytest.fixture(scope="module")
def tenants() -> Iterator[str]:
    """A new one for each example."""
    return (f"t{number}" for number in range(10_000))


@settings(max_examples=40)
@given(changes=st.lists(CHANGE, min_size=1, max_size=5))
def test_whatever_is_applied_leaves_nothing_to_do_and_what_others_made_alone(
    database: Database, tenants: Iterator[str], changes: list[tuple[str, list[Document], Any]]
) -> None:
    at_work, tenant = applier(database), next(tenants)
    made: dict[tuple[str, str], tuple[str, str]] = {}  # key → who left it, and as what
    for own, documents, prune in changes:
        wanted = asked(tenant, documents, own, prune)
        plan = at_work.plan(wanted)
        assert plan.problems == ()
        before = exported(at_work, tenant)
        assert exported(at_work, tenant) == before, "a plan changes nothing"
        done = at_work.apply(wanted)
        assert (done.digest, done.set, done.prune) == (plan.digest, own, prune)
        after, said = exported(at_work, tenant), {one.key: one for one in wanted.documents}
        assert {key: after[key] for key in said} == {key: one.kind.spec(one.body) for key, one in said.items()}
        for key in before.keys() - said.keys():
            mine = made.get(key) == (own, digest_of(before[key]))
            gone = key[0] != "Recording" and (prune == "all" or (prune == "set" and mine))
            assert (key not in after) == gone, key
        assert after.keys() <= before.keys() | said.keys()
        made |= {key: (own, digest_of(after[key])) for key in said}
        assert at_work.plan(wanted).changed == []


def exported(at_work: Applier, tenant: str) -> dict[tuple[str, str], dict[str, Any]]:
    documents, left_out = at_work.export(tenant, ALL)
    assert left_out == []
    return {one.key: raw["spec"] for raw in documents for one in read_documents([raw])}
