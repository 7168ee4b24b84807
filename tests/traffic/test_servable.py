"""Which versions may be asked: those that the policy lets serve, on the weights that they were pushed for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graftwork.errors import Forbidden, Refused, UnknownModel
from graftwork.registry.reference import Reference
from graftwork.registry.versions import Version
from graftwork.traffic.servable import require_allowed, require_servable, servable
from support.versions import BASE, version

ONE, TWO = version("new", "1.0.0", 1), version("old", "1.0.0", 3)
FORBIDDEN = replace(ONE, forbidden=("its approval is pending",))


def test_every_one_of_several_must_be_for_this_base() -> None:
    require_servable([], base=BASE, base_digest=ONE.base_digest)
    require_servable([ONE], base=BASE, base_digest=ONE.base_digest)
    with pytest.raises(Refused, match=r"old:1\.0\.0 was pushed for"):
        require_servable([ONE, TWO], base=BASE, base_digest=ONE.base_digest)


def test_every_one_of_several_must_be_allowed() -> None:
    require_allowed(ONE)
    with pytest.raises(Forbidden, match=r"new:1\.0\.0: its approval is pending"):
        require_servable([TWO, FORBIDDEN], base=BASE, base_digest=TWO.base_digest)


@pytest.mark.parametrize(
    ("found", "asked"),
    [(ONE, ONE), (FORBIDDEN, None), (replace(ONE, stage="archived"), None), (None, None)],
)
def test_an_arm_is_asked_while_its_version_is_there_allowed_and_not_archived(
    found: Version | None, asked: Version | None
) -> None:
    def resolve(_: Reference) -> Version:
        if found is None:
            raise UnknownModel("new")
        return found

    assert servable("new:1.0.0", resolve) == asked
