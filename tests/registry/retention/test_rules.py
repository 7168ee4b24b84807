"""Rules: which versions may go; a pure decision."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.errors import InvalidRequest, NotFound
from graftwork.registry.retention.rules import EVERY, Retention, Rules, going, rules_of
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView

if TYPE_CHECKING:
    from support.yard import Yard

NOW = datetime(2026, 6, 30, tzinfo=UTC)


def version(sequence: int, days: float, stage: Any = "development") -> Version:
    made = (NOW - timedelta(days=days)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    manifest = Manifest((BundleFile("weights", 8, f"sha256:{sequence:064x}"),))
    digest = "sha256:" + "b" * 64
    return Version(
        "local", "tone", f"1.0.{sequence}", sequence, manifest.digest(), manifest, stage, "lora", "tiny", digest, 8, 8,
        made, "me",
    )  # fmt: skip


def gone(rules: Rules, *versions: Version, promoted: tuple[int, ...] = ()) -> list[int]:
    view = AdapterView.of(versions, {})
    assert view is not None
    return sorted(one.sequence for one, _ in going(rules, view, promoted, NOW))


FIVE = tuple(version(number, 50 - 10 * number) for number in (1, 2, 3, 4, 5))


def test_without_rules_everything_stays() -> None:
    assert gone(Rules(), *FIVE) == []


def test_the_last_ones_stay() -> None:
    assert gone(Rules(keep_last=2), *FIVE) == [1, 2, 3]


def test_young_ones_stay_as_well() -> None:
    assert gone(Rules(keep_last=1, keep_days=25), *FIVE) == [1, 2]  # 40 and 30 days old; the third has 20
    assert gone(Rules(keep_last=1, keep_days=30), *FIVE) == [1, 2]
    assert gone(Rules(keep_last=1, keep_days=31), *FIVE) == [1]


def test_what_was_in_production_stays_unless_the_rules_say_otherwise() -> None:
    assert gone(Rules(keep_last=1), *FIVE, promoted=(2,)) == [1, 3, 4]
    assert gone(Rules(keep_last=1, keep_production=False), *FIVE, promoted=(2,)) == [1, 2, 3, 4]


def test_old_archived_ones_go_though_they_are_among_the_last() -> None:
    versions = (version(1, 40), version(2, 30, "archived"), version(3, 10, "archived"), version(4, 1))
    assert gone(Rules(keep_last=9, archived_days=20), *versions) == [2]
    assert gone(Rules(archived_days=20), *versions) == [2]
    assert gone(Rules(archived_days=20), *versions, promoted=(2,)) == []
    assert gone(Rules(keep_last=1, archived_days=20), *versions) == [1, 2]


@given(
    rules=st.builds(
        Rules,
        keep_last=st.none() | st.integers(1, 6),
        keep_days=st.integers(0, 60),
        keep_production=st.booleans(),
        archived_days=st.none() | st.integers(0, 60),
    ),
    made=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["development", "archived"])), min_size=1, max_size=6),
    promoted=st.sets(st.integers(1, 6)),
)
def test_the_newest_stays_and_looser_rules_let_no_more_go(
    rules: Rules, made: list[tuple[int, str]], promoted: set[int]
) -> None:
    versions = [version(number, days, stage) for number, (days, stage) in enumerate(made, 1)]
    went = gone(rules, *versions, promoted=tuple(promoted))
    assert len(versions) not in went
    looser = Rules((rules.keep_last or 9) + 1, rules.keep_days + 1, rules.keep_production, rules.archived_days)
    assert set(gone(looser, *versions, promoted=tuple(promoted))) <= set(went) or rules.keep_last is None
    if rules.keep_production:
        assert not promoted & set(went)


def test_rules_of_an_adapter_come_before_the_tenants(yard: Yard) -> None:
    yard.push("tone", b"one")
    yard.push("voice", b"one")
    yard.retention.set("local", EVERY, Rules(keep_last=5), actor="me")
    yard.retention.set("local", "tone", Rules(keep_last=2), actor="me")
    yard.retention.set("local", "tone", Rules(keep_last=2), actor="me")  # no change, and no event
    with yard.desk.database.reading() as tx:
        found = [rules_of(tx, tenant, name).keep_last for tenant, name in TENANTS_AND_NAMES]
    assert found == [2, 5, None]
    assert yard.retention.list("local").items == ((EVERY, Rules(keep_last=5)), ("tone", Rules(keep_last=2)))
    events = [event.kind for event in yard.desk.registry.history("local", "tone")]
    assert events == ["adapter.created", "version.created", "retention.set"]
    yard.retention.remove("local", "tone", actor="me")
    with yard.desk.database.reading() as tx:
        assert rules_of(tx, "local", "tone").keep_last == 5


TENANTS_AND_NAMES = [("local", "tone"), ("local", "voice"), ("acme", "tone")]


def test_rules_of_nothing_are_refused(yard: Yard) -> None:
    with pytest.raises(NotFound):
        yard.retention.set("local", "tone", Rules(), actor="me")
    for name in ("tone", EVERY):
        with pytest.raises(NotFound):
            yard.retention.remove("local", name, actor="me")


def test_the_list_goes_page_by_page(yard: Yard) -> None:
    for name in ("a", "b"):
        yard.push(name, b"one")
        yard.retention.set("local", name, Rules(keep_last=1), actor="me")
    yard.retention.set("local", EVERY, Rules(keep_last=5), actor="me")
    assert pages(yard.retention) == [EVERY, "a", "b"]
    for wrong in ("A", "a b", "x" * 200):
        with pytest.raises(InvalidRequest, match="page_token"):
            yard.retention.list("local", page_token=wrong)


def pages(retention: Retention) -> list[str]:
    names, token = [], None
    next_page: Callable[..., Any] = retention.list
    while True:
        page = next_page("local", page_size=1, page_token=token)
        names += [name for name, _ in page.items]
        token = page.next_page_token
        if token is None:
            return names
