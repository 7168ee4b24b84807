"""Which version answers: the documented order, and one and the same refusal."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.errors import InvalidRequest, UnknownModel
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.view import AdapterView
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from support.versions import BASE, snapshot, version


def chosen(**asked: Any) -> Decision:
    return choose(Asked(**asked), tenant="local", base=BASE, versions=snapshot())


@pytest.mark.parametrize("model", [None, "", "default"])
def test_without_a_name_the_base_answers(model: str | None) -> None:
    decision = chosen(model=model)
    assert (decision.version, decision.model, decision.reason) == (None, BASE, "default:base")


@pytest.mark.parametrize("asked", [{"adapter_id": ""}, {"header": ""}, {"adapter_id": "", "model": BASE}])
def test_an_empty_adapter_never_means_the_base(asked: dict[str, str]) -> None:
    with pytest.raises(UnknownModel):
        chosen(**asked)


def test_the_base_answers_to_its_own_name() -> None:
    decision = chosen(model=BASE)
    assert (decision.version, decision.model, decision.arm, decision.reason) == (
        None,
        BASE,
        "base",
        "model:base",
    )


def test_the_base_keeps_its_name_whatever_another_process_pushed() -> None:
    views = [AdapterView.of([version(BASE, "1.0.0", 1)], {})]
    taken = Snapshot(1, {(view.tenant, view.name): view for view in views if view is not None})
    assert choose(Asked(BASE), tenant="local", base=BASE, versions=taken).version is None
    assert choose(Asked(f"{BASE}:1.0.0"), tenant="local", base=BASE, versions=taken).version is not None


def test_a_bare_name_means_the_production_version() -> None:
    decision = chosen(model="old")
    assert (decision.model, decision.route, decision.arm) == ("old:1.0.0", "old", "production")


def test_a_bare_name_without_production_means_the_newest_and_says_so() -> None:
    decision = chosen(model="new")
    assert (decision.model, decision.arm, decision.reason) == ("new:1.1.0", "newest", "model:newest")


@pytest.mark.parametrize(
    ("reference", "model"),
    [
        ("old:1.1.0", "old:1.1.0"),
        ("old:v1.1", "old:1.1.0"),
        ("old@champion", "old:1.1.0"),
        ("old@sha256:" + "4" * 12, "old:1.1.0"),
        ("local/old", "old:1.0.0"),
        ("models:/old/4", "old:1.1.0"),
        ("adapters:/old@champion", "old:1.1.0"),
    ],
)
def test_every_form_of_reference_can_be_called(reference: str, model: str) -> None:
    assert chosen(model=reference).model == model


@pytest.mark.parametrize("reference", ["old:1.1.0", "old@champion", "old@production", "old@sha256:" + "4" * 12])
def test_a_reference_that_says_which_version_is_explicit(reference: str) -> None:
    decision = chosen(model=reference)
    assert (decision.arm, decision.reason) == ("explicit", "model:explicit")


def test_an_explicit_adapter_wins_over_the_model() -> None:
    assert chosen(model="new", adapter_id="old").reason == "adapter_id:production"
    assert chosen(model=BASE, header="old").reason == "header:production"


def test_the_same_adapter_in_body_and_header_is_no_conflict() -> None:
    assert chosen(adapter_id="old", header="old").model == "old:1.0.0"


def test_different_adapters_in_body_and_header_are_a_conflict() -> None:
    with pytest.raises(InvalidRequest, match=r"adapter_id is 'old' but the header X-Adapter-Id is 'new'"):
        chosen(adapter_id="old", header="new")


@pytest.mark.parametrize(
    "name", ["nope", "../x", "a\\b", " old", "é", "old:9.9.9", "old@nobody", "other/old", "x" * 900]
)
def test_unknown_malformed_and_forbidden_look_alike(name: str) -> None:
    with pytest.raises(UnknownModel) as raised:
        chosen(model=name)
    assert raised.value.message == UnknownModel(name[:200]).message
    assert raised.value.__suppress_context__


def test_the_base_is_not_an_adapter() -> None:
    with pytest.raises(UnknownModel):
        chosen(adapter_id=BASE)


def test_several_adapters_are_a_composition_whose_name_and_digest_do_not_depend_on_their_order() -> None:
    one = chosen(model="old", adapters=(("new:1.0.0", 0.7), ("old@champion", -0.5)))
    two = chosen(adapters=(("old:1.1.0", -0.5), ("new:1.0.0", 0.7)))
    assert one == two and one.version is None
    assert (one.model, one.route, one.arm, one.reason) == (
        "new:1.0.0*0.7+old:1.1.0*-0.5",
        "new+old",
        "composed",
        "adapters:composed",
    )
    assert [found.label for found in one.versions] == ["new:1.0.0", "old:1.1.0"]
    assert one.digest == one.composition.digest if one.composition else False


def test_one_adapter_at_scale_one_is_that_adapter() -> None:
    alone = chosen(adapter_id="new:1.0.0")
    for named in [(("new:1.0.0", 1.0),), (("new:1.0.0", 0.5), ("old", 0.0), ("new:1.0.0", 0.5))]:
        decision = chosen(adapters=named)
        assert (decision.version, decision.model, decision.digest) == (alone.version, alone.model, alone.digest)
        assert (decision.arm, decision.reason) == ("explicit", "adapters:explicit")


@pytest.mark.parametrize("named", [(("new", 0.0),), (("new", 0.5), ("new:1.1.0", -0.5)), (("new", -0.0), ("old", 0.0))])
def test_scales_that_come_to_nothing_are_the_base(named: tuple[tuple[str, float], ...]) -> None:
    decision = chosen(model="old", adapters=named)
    assert (decision.version, decision.digest, decision.model, decision.reason) == (None, None, BASE, "adapters:base")


@pytest.mark.parametrize("asked", [{"adapter_id": "new"}, {"header": "new"}, {"adapter_id": ""}])
def test_several_adapters_and_one_beside_them_are_refused(asked: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chosen(adapters=(("new", 0.5),), **asked)
    assert caught.value.field == "adapters"


@pytest.mark.parametrize("name", ["nope", "", BASE, "../x", "other/new"])
@pytest.mark.parametrize("scale", [0.5, 0.0])
def test_an_unknown_one_of_several_is_unknown_even_at_scale_zero(name: str, scale: float) -> None:
    with pytest.raises(UnknownModel):
        chosen(adapters=(("new", 0.5), (name, scale)))
