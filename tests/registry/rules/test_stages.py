"""From which stage a version may go to which."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from graftwork.errors import Conflict, PreconditionFailed
from graftwork.registry.rules.stages import ALLOWED, Stage, check_transition

STAGES: tuple[Stage, ...] = get_args(Stage)
#: Written out by hand, beside the table.
MAY = {
    *(("development", stage) for stage in ("staging", "production", "archived")),
    *(("staging", stage) for stage in ("development", "production", "archived")),
    *(("archived", stage) for stage in ("staging", "production")),
}


@pytest.mark.parametrize(("before", "after"), list(product(STAGES, STAGES)))
def test_a_transition_is_allowed_or_refused_with_what_is(before: Stage, after: Stage) -> None:
    if before == after or (before, after) in MAY:
        check_transition("tone:1.0.0", before, after)
        return
    with pytest.raises(Conflict, match=r"tone:1\.0\.0") as refused:
        check_transition("tone:1.0.0", before, after)
    assert all(stage in refused.value.message for stage in ALLOWED[before])


def test_another_stage_than_expected_is_told_before_all_else() -> None:
    with pytest.raises(PreconditionFailed, match="in stage production, not in staging"):
        check_transition("tone:1.0.0", "production", "development", expected="staging")
