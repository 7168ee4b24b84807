"""What verdicts come to, by the rule that counts them."""

from __future__ import annotations

import pytest

from graftwork.registry.rules.approval import Opinion, approval_of
from graftwork.registry.rules.policy import ApprovalRule

ONE, TWO = ApprovalRule(), ApprovalRule(needed=2)
OTHERS = ApprovalRule(author_may_approve=False)
NAMED = ApprovalRule(by=frozenset({"ann", "bob"}))
COUNTED = ApprovalRule(needed=2, rejection_vetoes=False)


def opinions(text: str) -> list[Opinion]:
    """`+ann -bob`: ann approves, then bob rejects."""
    words = text.split()
    return [Opinion("approved" if word[0] == "+" else "rejected", None, word[1:], "then") for word in words]


@pytest.mark.parametrize(
    ("rule", "given", "approval"),
    [
        (ONE, "", "pending"),
        (ONE, "+ann", "approved"),
        (ONE, "+author", "approved"),
        (ONE, "+ann -bob", "rejected"),
        (ONE, "-bob +ann", "rejected"),
        (ONE, "-bob +bob", "approved"),
        (ONE, "+bob -bob", "rejected"),
        (TWO, "+ann", "pending"),
        (TWO, "+ann +ann", "pending"),
        (TWO, "+ann +bob", "approved"),
        (TWO, "+ann +bob -ann", "rejected"),
        (OTHERS, "+author", "pending"),
        (OTHERS, "+author +ann", "approved"),
        (OTHERS, "-author +ann", "rejected"),
        (NAMED, "+eve", "pending"),
        (NAMED, "-eve +ann", "approved"),
        (COUNTED, "-ann +bob", "pending"),
        (COUNTED, "-ann -bob", "rejected"),
        (COUNTED, "-ann +bob +eve", "approved"),
        (COUNTED, "-ann -bob +eve +dan", "approved"),
    ],
)
def test_the_last_verdict_of_each_person_counts_as_the_rule_says(rule: ApprovalRule, given: str, approval: str) -> None:
    assert approval_of(opinions(given), "author", rule) == approval
