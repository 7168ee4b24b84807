"""Composition: the same adapters and scales are the same thing, however they are written down."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import Refused
from graftwork.traffic.composition import Composition
from support.versions import version

VERSIONS = [version("a", "1.0.0", 1), version("a", "1.1.0", 2), version("b", "1.0.0", 3)]
#: The bytes of a:1.0.0 under another name.
TWIN = replace(VERSIONS[0], adapter="z", sequence=9)
PARTS = st.lists(
    st.tuples(st.sampled_from([*VERSIONS, TWIN]), st.floats(-1e6, 1e6, allow_nan=False)), min_size=1, max_size=8
)


@given(parts=PARTS, data=st.data())
def test_order_changes_neither_digest_nor_name(parts: list[tuple[object, float]], data: st.DataObject) -> None:
    made = Composition.of(parts)  # type: ignore[arg-type]
    again = Composition.of(data.draw(st.permutations(parts)))  # type: ignore[arg-type]
    assert made == again
    if made.parts:
        assert (made.digest, made.label, made.names) == (again.digest, again.label, again.names)
    assert all(scale for _, scale in made.parts)
    assert len({one.digest for one, _ in made.parts}) == len(made.parts)


@given(scales=st.lists(st.floats(-10, 10), min_size=2, max_size=2, unique=True))
def test_other_scales_are_another_digest(scales: list[float]) -> None:
    digests = {Composition.of([(VERSIONS[0], scale), (VERSIONS[2], 1.0)]).digest for scale in scales if scale}
    assert len(digests) == sum(map(bool, scales))


def test_the_digest_is_over_the_canonical_json_of_sorted_pairs() -> None:
    made = Composition.of([(VERSIONS[2], 0.3), (VERSIONS[0], 2.0)])
    text = f'[["{VERSIONS[0].digest}",2],["{VERSIONS[2].digest}",0.3]]'
    assert made.digest == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
    assert made.label == "a:1.0.0*2+b:1.0.0*0.3"


def test_equal_bytes_are_one_part_whatever_their_name() -> None:
    made = Composition.of([(TWIN, 0.25), (VERSIONS[0], 0.5)])
    assert made.parts == ((VERSIONS[0], 0.75),)


def test_scales_that_add_up_to_infinity_are_refused_by_name() -> None:
    with pytest.raises(Refused, match=r"a:1\.0\.0"):
        Composition.of([(VERSIONS[0], 1.5e308), (VERSIONS[0], 1.5e308)])
