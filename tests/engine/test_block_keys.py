"""BlockKeys: equal keys mean equal keys and values, whatever version, tenant, salt and place there are."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.block_keys import BlockKeys
from graftwork.engine.request import Caller
from support.engines import prompt_of

TOKENS = list(prompt_of(3, 320))
LOCAL = Caller()


def keys(
    adapter: str | None = None, caller: Caller = LOCAL, acts_from: int | None = 0, tokens: list[int] = TOKENS,
    base: str = "sha256:0",
) -> list[bytes]:  # fmt: skip
    return BlockKeys(base, adapter, caller).of(tokens, len(tokens) // 64, acts_from)


def test_version_base_tenant_and_salt_share_no_key() -> None:
    callers = [LOCAL, Caller("other"), Caller(salt="a"), Caller("a"), Caller("ab", salt="c"), Caller("a", salt="bc")]
    callers.append(Caller('local", "a'))  # no words run into one another
    made = [keys(adapter, caller) for adapter in (None, "sha256:0", "sha256:1") for caller in callers]
    made.append(keys(base="sha256:1"))
    for one, other in combinations(made, 2):
        assert not set(one) & set(other)
    assert all(len(key) * 8 >= 128 for one in made for key in one)


def test_weight_and_priority_change_nothing() -> None:
    assert keys("a", Caller(weight=3.0, priority=-1)) == keys("a")


def test_a_key_stands_for_all_tokens_up_to_its_block() -> None:
    for place in (0, 63, 64, 200, 319):
        changed = [*TOKENS[:place], TOKENS[place] + 1, *TOKENS[place + 1 :]]
        same = [one == other for one, other in zip(keys(), keys(tokens=changed), strict=True)]
        assert same == [block < place // 64 for block in range(5)]
    assert keys(tokens=[*TOKENS[64:128], *TOKENS[:64]])[1] != keys()[1], "a block in another place is another"


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_keys_do_not_depend_on_how_often_they_were_asked_for(counts: list[int]) -> None:
    growing = BlockKeys("sha256:0", "a", LOCAL)
    for count in counts:
        assert growing.of(TOKENS, count, 0) == keys("a")[:count]


def test_what_lies_before_an_activation_is_the_bases_and_the_rest_is_not() -> None:
    base = keys()
    assert keys("a", acts_from=None) == base
    for acts_from in (0, 1, 63, 64, 100, 128, 319):
        made = keys("a", acts_from=acts_from)
        shared = acts_from // 64
        assert made[:shared] == base[:shared]
        assert not set(made[shared:]) & set(base)
        others = keys("b", acts_from=acts_from) + keys("a", acts_from=acts_from + 1)
        assert not set(made[shared:]) & set(others)
    assert not set(keys("a", acts_from=128)[2:]) & set(keys("a"))


def test_after_a_restart_other_tokens_may_come() -> None:
    made = BlockKeys("sha256:0", "a", LOCAL)
    made.of(TOKENS, 5, 0)
    made.restart()
    assert made.of([0] * 64, 1, 0) == keys("a", tokens=[0] * 64)
