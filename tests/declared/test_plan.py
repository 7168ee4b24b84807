"""A plan tells each field that differs, and what is no longer as it was."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.declared.plan import Plan, digest_of, going, step_to
from graftwork.errors import PreconditionFailed
from graftwork.registry.owners import Owner

SPEC = st.dictionaries(
    st.sampled_from("abcd"),
    st.recursive(st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["x", "y"]), lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ), max_leaves=8),
    max_size=4,
)  # fmt: skip


def patched(spec: dict[str, Any], fields: tuple[Any, ...]) -> dict[str, Any]:
    """The spec with each change made; what goes from a list goes from its end."""
    made: Any = {"spec": copy.deepcopy(spec)}
    for change in reversed(fields):
        *path, last = change["field"].split(".")
        place = made
        for step in path:
            place = place[int(step) if isinstance(place, list) else step]
        if "after" not in change:
            del place[int(last) if isinstance(place, list) else last]
    for change in fields:
        *path, last = change["field"].split(".")
        place = made
        for step in path:
            place = place[int(step) if isinstance(place, list) else step]
        if "after" in change and isinstance(place, list) and int(last) == len(place):
            place.append(change["after"])
        elif "after" in change:
            place[int(last) if isinstance(place, list) else last] = change["after"]
    return dict(made["spec"])


@given(SPEC, SPEC)
def test_the_fields_that_are_told_lead_from_one_spec_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    step = step_to("Route", "r", after, before, document=0)
    assert patched(before, step.fields) == after
    assert (step.action == "unchanged") == (digest_of(before) == digest_of(after))
    assert step.action != "unchanged" or step.fields == ()


def test_true_is_not_one() -> None:
    [field] = step_to("Route", "r", {"a": True}, {"a": 1}, document=0).fields
    assert field == {"field": "spec.a", "before": 1, "after": True}


def test_of_very_many_fields_some_are_told() -> None:
    step = step_to("Route", "r", {"a": list(range(500))}, {"a": []}, document=0)
    assert len(step.fields) == 201 and step.fields[-1] == {"field": "and 300 more"}


def test_only_what_is_still_as_a_set_left_it_goes() -> None:
    live: dict[tuple[str, str], dict[str, Any]] = {("Route", name): {"n": name} for name in ("a", "b", "c", "d")}
    owners = {
        ("Route", "a"): Owner("ours", digest_of({"n": "a"})),
        ("Route", "b"): Owner("ours", digest_of({"n": "another"})),
        ("Route", "c"): Owner("theirs", digest_of({"n": "c"})),
        ("Route", "gone"): Owner("ours", digest_of({})),
    }
    found = dict(going(live, [], owners, "ours"))
    assert found == {("Route", "a"): None, ("Route", "b"): "changed by others since it was applied"}
    assert dict(going(live, [("Route", "a")], owners, None)) == {("Route", name): None for name in ("b", "c", "d")}


def test_another_plan_is_not_the_one_that_was_seen() -> None:
    def plan(live: dict[str, Any]) -> Plan:
        return Plan("s", None, (step_to("Route", "r", {"a": 1}, live, document=0),))

    seen = plan({"a": 2})
    labels = {"Route/r": seen.steps[0].live}
    plan({"a": 2}).check_seen(seen.digest, labels)
    with pytest.raises(PreconditionFailed, match="Route/r changed since"):
        plan({"a": 3}).check_seen(seen.digest, labels)
    with pytest.raises(PreconditionFailed, match="not what was planned"):
        Plan("t", None, seen.steps).check_seen(seen.digest, labels)
