"""DominantShares: whoever gives way frees what was asked for, keeps no less than it gave to, and not for nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.dominant_shares import DominantShares
from graftwork.engine.fair_shares import FairShares
from graftwork.engine.request import Caller
from graftwork.engine.sequence import Sequence
from support.rows import row

ROWS, PAGES = 6, 24

#: A row in the batch: tenant, pages, and whether it gave way a moment ago. Only those of one tenant share pages.
BATCH = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sets(st.integers(0, 7), max_size=5), st.booleans()),
    min_size=1, max_size=ROWS,
)  # fmt: skip
FIRST_PAGE = {"x": 0, "y": 8, "z": 16}


def held(name: str, tenant: str, pages: set[int]) -> Sequence:
    made = row(name, 64, 10, caller=Caller(tenant))
    made.pages = [FIRST_PAGE[tenant] + page for page in sorted(pages)]
    return made


def pages_of(rows: list[Sequence]) -> set[int]:
    return {page for one in rows for page in one.pages}


@given(batch=BATCH, begins_with=st.sets(st.integers(0, 7), max_size=5), missing=st.integers(0, 6),
       short_of=st.integers(-3, 8), given_to=st.permutations("xyz"))  # fmt: skip
def test_who_gives_way_frees_what_is_missing_and_keeps_no_less_than_who_gets_it(
    batch: list[tuple[str, set[int], bool]], begins_with: set[int], missing: int, short_of: int, given_to: list[str]
) -> None:
    running = [held(str(place), tenant, pages) for place, (tenant, pages, _) in enumerate(batch)]
    for one, (_, _, gave_way) in zip(running, batch, strict=True):
        one.kept_until = 65 if gave_way else 0
    shares = FairShares()
    for tokens, tenant in enumerate(given_to):
        shares.wake(tenant, [])
        shares.give(Caller(tenant), tokens)
    owed, dominant = held("owed", "y", begins_with), DominantShares(ROWS, PAGES)
    gone = dominant.giving_way(owed, missing, short_of, running, shares)
    if not gone:
        return
    tenant = gone[0].caller.tenant
    stay = [one for one in running if one not in gone]
    assert all(one.caller.tenant == tenant and one.num_generated >= 0 and not one.kept_until for one in gone)
    assert given_to.index(tenant) > given_to.index("y"), "it was given more than who is owed"
    assert len(pages_of(gone) - pages_of(stay)) >= short_of, "what others hold too is not freed"
    assert len(pages_of(gone[:-1]) - pages_of([*stay, gone[-1]])) < max(1, short_of), "one more gave way than had to"
    left = [one for one in stay if one.caller.tenant == tenant]
    theirs = [owed, *(one for one in running if one.caller.tenant == "y")]
    most = max(len(theirs) / ROWS, (len(pages_of(theirs)) + missing) / PAGES)
    assert max(len(left) / ROWS, len(pages_of(left)) / PAGES) >= most


def test_of_two_that_hold_the_same_pages_one_alone_frees_nothing() -> None:
    running = [held("1", "x", {0, 1, 2, 3, 4}), held("2", "x", {0, 5, 6}), held("3", "x", {0, 5, 6})]
    shares = FairShares()
    for tenant, tokens in (("x", 100), ("y", 0)):
        shares.wake(tenant, [])
        shares.give(Caller(tenant), tokens)
    dominant = DominantShares(ROWS, PAGES)
    gone = dominant.giving_way(held("owed", "y", set()), 2, 2, running, shares)
    assert [one.id for one in gone] == ["3", "2"]
    assert [one.id for one in dominant.giving_way(held("owed", "y", set()), 1, 0, running, shares)] == ["3"]
