"""Resources of every kind in the database: revisions that never change, a pointer with one winner, events, and the
part of a snapshot that follows them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from graftwork.access.events import read_events, verify_chain
from graftwork.db import Database
from graftwork.db.within import within
from graftwork.errors import Conflict, GraftworkError, InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.analysis_template import TemplateSpec
from graftwork.protocol.promotions import PromotionSpec
from graftwork.protocol.routes import RouteSpec
from graftwork.protocol.tasks import TaskSpec
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.gates.templates import TEMPLATE
from graftwork.traffic.promotions.promotions import PROMOTION
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resources import Resources
from graftwork.traffic.resources.table import LiveTable, reader_of
from graftwork.traffic.routes.routes import ROUTE
from graftwork.traffic.tasks.tasks import TASK
from support.analysis import rate_metric
from support.databases import NewDatabase
from support.desk import Desk, Ticking
from support.rollouts import canary, weight
from support.threads import at_once

OTHER = "sha256:" + "0" * 64


@dataclass(frozen=True)
class Case:
    """A kind, and specs of it that differ by a number."""

    kind: Kind[Any, Any]
    spec: Callable[[int], Any]


def route(number: int) -> RouteSpec:
    return RouteSpec.model_validate({"rules": [{"targets": [{"reference": f"tone:1.{number}.0"}]}]})


def task(number: int) -> TaskSpec:
    return TaskSpec(adapter=f"tone:1.{number}.0")


def template(number: int) -> TemplateSpec:
    metric = rate_metric(successCondition=f"result >= 0.{number + 1}", interval="30s")
    return TemplateSpec.model_validate(
        {"metrics": [metric.model_dump(mode="json", by_alias=True, exclude_unset=True)], "settle": "1m"}
    )


def promotion(number: int) -> PromotionSpec:
    told = {"adapters": f"tone-{number}*", "when": {"stage": "staging"}, "strategy": canary(weight(5))}
    return PromotionSpec.model_validate(told)


CASES = [Case(ROUTE, route), Case(TASK, task), Case(TEMPLATE, template), Case(PROMOTION, promotion)]


class Board:
    """Resources of one kind on a database of their own."""

    def __init__(self, case: Case, desk: Desk) -> None:
        self.case, self.desk = case, desk
        self.kind = case.kind
        self.resources: Resources[Any, Any] = Resources(case.kind, desk.database, desk.clock)
        self.snapshots = SnapshotReader(desk.database, {LiveTable: reader_of(LiveTable, case.kind)})

    def set(self, number: int, name: str = "a", tenant: str = "local", **more: Any) -> tuple[Any, bool]:
        return self.resources.set(tenant, name, self.case.spec(number), **{"actor": "me", **more})

    def live(self) -> LiveTable[Any]:
        return self.snapshots.current().part(LiveTable)

    def events(self, name: str = "a") -> list[tuple[str, Any, Any, str | None]]:
        with self.desk.database.reading() as tx:
            found = read_events(tx, "local", self.kind.subject(name))
        short = {one.kind: one.kind.removeprefix(f"{self.kind.word}.") for one in found}
        return [(short[one.kind], one.payload["from"], one.payload["to"], one.payload["reason"]) for one in found]


@pytest.fixture(params=CASES, ids=[case.kind.word for case in CASES])
def board(request: pytest.FixtureRequest, new_database: NewDatabase) -> Iterator[Board]:
    with new_database() as url:
        desk = Desk(url)
        yield Board(request.param, desk)
        desk.database.close()


def test_each_change_is_a_revision_and_the_log_tells_of_it(board: Board) -> None:
    one, created = board.set(1, reason="first")
    assert (one.label, one.live, created, one.revision.created_by) == ("a/1", True, True, "me")
    two, created = board.set(2, actor="ann")
    assert (two.label, created, two.updated_by) == ("a/2", False, "ann")
    assert board.set(2) == (two, False), "nothing changes, and nothing is told"
    back, _ = board.set(1)
    assert (back.label, back.revision.digest) == ("a/3", one.revision.digest), "the same text, the same digest"
    assert board.resources.show("local", "a") == back
    assert board.resources.show("local", "a", 1) == replace(one, updated_at=None, updated_by=None)
    assert [(one.revision.number, one.live) for one in board.resources.revisions("local", "a").items] == [
        (3, True),
        (2, False),
        (1, False),
    ]
    briefs = [None, one.revision.brief(), two.revision.brief(), back.revision.brief()]
    assert board.events() == [
        ("set", briefs[0], briefs[1], "first"),
        ("set", briefs[1], briefs[2], None),
        ("set", briefs[2], briefs[3], None),
    ]


def test_a_spec_is_read_as_it_was_written(board: Board) -> None:
    made, _ = board.set(1)
    assert board.resources.show("local", "a").spec == made.spec == board.case.spec(1)
    assert board.kind.text(board.resources.show("local", "a").spec) == board.kind.text(board.case.spec(1))


def test_a_removed_name_means_nothing_and_counts_on(board: Board) -> None:
    board.set(1)
    board.resources.remove("local", "a", actor="me", reason="over")
    gone = re.escape(f"The {board.kind.noun} 'a' does not exist. `{board.kind.listed_by}` shows what there is.")
    for call in (
        lambda: board.resources.show("local", "a"),
        lambda: board.resources.remove("local", "a", actor="me"),
        lambda: board.resources.rollback("local", "a", actor="me"),
    ):
        with pytest.raises(NotFound, match=gone):
            call()
    assert not board.resources.show("local", "a", 1).live
    assert [one.live for one in board.resources.revisions("local", "a").items] == [False]
    assert board.set(1)[0].label == "a/2"
    assert [(kind, reason) for kind, *_, reason in board.events()] == [
        ("set", None),
        ("removed", "over"),
        ("set", None),
    ]


def test_what_is_no_name_is_refused_when_it_is_set_and_unknown_when_it_is_asked_for(board: Board) -> None:
    for name in ("Upper", "../a", "latest", ""):
        with pytest.raises(InvalidRequest):
            board.set(1, name)
        for call in (board.resources.show, board.resources.revisions):
            with pytest.raises(NotFound, match="does not exist"):
                call("local", name)


def test_a_name_moves_by_compare_and_swap(board: Board) -> None:
    with pytest.raises(PreconditionFailed, match="is not there"):
        board.set(1, expected=PRESENT)
    one, _ = board.set(1, expected=ABSENT)
    for wrong in (ABSENT, OTHER):
        with pytest.raises(PreconditionFailed, match="is at revision 1"):
            board.set(2, expected=wrong)
    two, _ = board.set(2, expected=one.revision.digest)
    with pytest.raises(PreconditionFailed):
        board.resources.remove("local", "a", expected=one.revision.digest, actor="me")
    with pytest.raises(PreconditionFailed):
        board.resources.rollback("local", "a", expected=one.revision.digest, actor="me")
    board.resources.rollback("local", "a", expected=two.revision.digest, actor="me")
    board.resources.remove("local", "a", expected=one.revision.digest, actor="me")


def test_of_many_who_replace_the_same_revision_one_does(board: Board) -> None:
    digest = board.set(0)[0].revision.digest
    found = at_once(lambda number: board.set(number + 1, expected=digest)[0].revision.number, 8)
    assert sorted(type(one).__name__ for one in found) == ["PreconditionFailed"] * 7 + ["int"]


def test_rollbacks_go_back_step_by_step_and_a_removal_forgets_the_way(board: Board) -> None:
    for number in (1, 2, 3):
        board.set(number)
    steps = [board.resources.rollback("local", "a", actor="me", reason="worse") for _ in range(2)]
    assert [(one.revision.number, one.live, one.updated_by) for one in steps] == [(2, True, "me"), (1, True, "me")]
    with pytest.raises(Conflict, match="no earlier revision"):
        board.resources.rollback("local", "a", actor="me")
    assert board.set(4)[0].revision.number == 4
    for revision in (3, 3):
        assert board.resources.rollback("local", "a", revision=revision, actor="me").revision.number == 3
    with pytest.raises(NotFound, match="no revision 9"):
        board.resources.rollback("local", "a", revision=9, actor="me")
    assert [kind for kind, *_ in board.events()] == ["set"] * 3 + ["rolled_back"] * 2 + ["set", "rolled_back"]
    board.resources.remove("local", "a", actor="me")
    board.set(5)
    with pytest.raises(Conflict, match="no earlier revision"):
        board.resources.rollback("local", "a", actor="me")


def test_several_changes_are_made_in_one_transaction_or_none(board: Board) -> None:
    board.set(1, "a")
    board.set(1, "b")
    both, spec = board.resources, board.case.spec

    def change(last: str) -> None:
        with board.desk.database.transaction() as tx:
            joined = within(both, tx)
            made, created = joined.set("local", "a", spec(2), actor="me")
            assert (made.label, created, both.show_in(tx, "local", "a")) == ("a/2", False, made)
            joined.remove("local", "b", actor="me")
            joined.rollback("local", last, actor="me")

    with pytest.raises(NotFound):
        change("nope")
    assert [one.label for one in both.list("local").items] == ["a/1", "b/1"]
    change("a")
    assert [one.label for one in both.list("local").items] == ["a/1"]
    with board.desk.database.reading() as tx:
        verify_chain(tx)


def test_lists_are_read_page_by_page(board: Board) -> None:
    for name in ("c", "a", "b"):
        board.set(1, name)
    first = board.resources.list("local", page_size=2)
    assert ([one.name for one in first.items], first.next_page_token) == (["a", "b"], "b")
    last = board.resources.list("local", page_size=2, page_token="b")
    assert ([one.name for one in last.items], last.next_page_token) == (["c"], None)
    for number in (2, 3, 4):
        board.set(number, "a")
    page = board.resources.revisions("local", "a", page_size=3)
    assert [one.revision.number for one in page.items] == [4, 3, 2]
    rest = board.resources.revisions("local", "a", page_token=page.next_page_token)
    assert ([one.revision.number for one in rest.items], rest.next_page_token) == ([1], None)
    for wrong in ({"page_token": "/"}, {"page_size": 0}):
        with pytest.raises(InvalidRequest):
            board.resources.list("local", **wrong)
        with pytest.raises(InvalidRequest):
            board.resources.revisions("local", "a", **wrong)


def test_a_tenant_has_its_own(board: Board) -> None:
    board.set(1, tenant="other")
    with pytest.raises(NotFound):
        board.resources.show("local", "a")
    assert board.resources.list("local").items == ()


def test_kinds_have_names_of_their_own(board: Board) -> None:
    board.set(1)
    for case in CASES:
        if case.kind is not board.kind:
            other: Resources[Any, Any] = Resources(case.kind, board.desk.database, board.desk.clock)
            assert other.list("local").items == ()
            assert other.set("local", "a", case.spec(1), actor="me")[0].label == "a/1"
    assert len(board.resources.revisions("local", "a").items) == 1


def test_a_tenant_may_have_so_many_and_no_more(board: Board) -> None:
    few: Resources[Any, Any] = Resources(replace(board.kind, most=2), board.desk.database, board.desk.clock)
    for name in ("a", "b"):
        few.set("local", name, board.case.spec(1), actor="me")
    with pytest.raises(Conflict, match=f"You have 2 resources of the kind {board.kind.title},"):
        few.set("local", "c", board.case.spec(1), actor="me")
    few.set("other", "c", board.case.spec(1), actor="me")
    few.set("local", "a", board.case.spec(2), actor="me")
    few.remove("local", "b", actor="me")
    few.set("local", "c", board.case.spec(1), actor="me")


def test_nobody_changes_a_revision(board: Board) -> None:
    board.set(1)
    for change in ("UPDATE resource_revisions SET reason = 'x'", "DELETE FROM resource_revisions"):
        with pytest.raises(IntegrityError, match="append-only"), board.desk.database.transaction() as tx:
            tx.exec_driver_sql(change)


def test_the_snapshot_follows_every_change_and_reads_only_what_changed(board: Board) -> None:
    board.set(1, "a")
    board.set(1, "b")
    before = board.live()
    board.desk.push(1)
    assert board.live() is before, "a push is nothing to it"
    board.set(2, "b")
    board.set(1, "c")
    board.resources.remove("local", "a", actor="me")
    board.set(1, "d", tenant="other")
    after = board.live()
    assert {name: one.label for name, one in after.of("local").items()} == {"b": "b/2", "c": "c/1"}
    board.set(3, "c")
    assert board.live().find("local", "b") is after.find("local", "b")
    assert board.live() == SnapshotReader(
        board.desk.database, {LiveTable: reader_of(LiveTable, board.kind)}
    ).current().part(LiveTable)
    assert (board.live().find("other", "b"), board.live().find("local", "a")) == (None, None)


def test_many_changes_at_once_are_read_at_once(board: Board) -> None:
    assert board.live().by_name == {}
    with board.desk.database.transaction() as tx:
        for number in range(101):
            within(board.resources, tx).set("local", f"n{number:03}", board.case.spec(1), actor="me")
    assert len(board.live().of("local")) == 101


@dataclass
class Model:
    """What a name should mean after any changes: its contents by number, and the way back; the live one is last."""

    texts: list[int]
    trail: list[int]

    @property
    def live(self) -> int | None:
        return self.trail[-1] if self.trail else None

    def expects(self, expected: str | int | None) -> bool:
        """`expected` is ABSENT, PRESENT, None or a content."""
        if isinstance(expected, int):
            return self.live is not None and self.texts[self.live - 1] == expected
        return expected is None or (expected == PRESENT) == (self.live is not None)

    def set(self, content: int) -> None:
        if self.live is None or self.texts[self.live - 1] != content:
            self.texts.append(content)
            self.trail.append(len(self.texts))

    def back(self, number: int | None) -> bool:
        if self.live is None:
            return False
        if number is None:
            if len(self.trail) > 1:
                self.trail.pop()
                return True
            return False
        if number > len(self.texts):
            return False
        if number in self.trail:
            while self.trail[-1] != number:
                self.trail.pop()
        else:
            self.trail.append(number)
        return True


CONTENTS = st.integers(0, 3)
EXPECTED = st.sampled_from([None, None, ABSENT, PRESENT]) | CONTENTS
CHANGES = st.lists(
    st.tuples(st.just("set"), CONTENTS, EXPECTED)
    | st.tuples(st.just("remove"), st.none(), EXPECTED)
    | st.tuples(st.just("rollback"), st.none() | st.integers(1, 6), EXPECTED),
    max_size=20,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path: Path = tmp_path_factory.mktemp("shared") / "graftwork.db"
    with Database(f"sqlite:///{path}") as database:
        yield database


@pytest.mark.parametrize("case", CASES, ids=[case.kind.word for case in CASES])
def test_any_order_of_changes_is_what_the_model_says(case: Case, shared: Database) -> None:
    digests = [digest_of(case, shared, number) for number in range(4)]
    resources: Resources[Any, Any] = Resources(case.kind, shared, Ticking())
    names = count()

    @given(changes=CHANGES)
    def check(changes: list[tuple[str, int | None, str | int | None]]) -> None:
        name, model = f"n{next(names)}", Model([], [])
        for verb, what, expected in changes:
            told = digests[expected] if isinstance(expected, int) else expected
            may = model.expects(expected) and (verb == "set" or model.live is not None)
            try:
                if verb == "set":
                    resources.set("local", name, case.spec(what or 0), expected=told, actor="me")
                    model.set(what or 0)
                elif verb == "remove":
                    resources.remove("local", name, expected=told, actor="me")
                    model.trail.clear()
                else:
                    resources.rollback("local", name, revision=what, expected=told, actor="me")
                    may = may and model.back(what)
            except GraftworkError:
                assert not may or (verb == "rollback" and not Model(model.texts, [*model.trail]).back(what))
                continue
            assert may
            check_is(resources, name, model, digests)

    check()


def check_is(resources: Resources[Any, Any], name: str, model: Model, digests: list[str]) -> None:
    """The database says of the name what the model does."""
    found = resources.revisions("local", name).items
    assert [one.revision.digest for one in reversed(found)] == [digests[one] for one in model.texts]
    assert [one.revision.number for one in found if one.live] == ([] if model.live is None else [model.live])


def digest_of(case: Case, database: Database, number: int) -> str:
    """The digest of a content."""
    made, _ = Resources(case.kind, database).set("local", f"digest-{number}", case.spec(number), actor="me")
    found: str = made.revision.digest
    return found
