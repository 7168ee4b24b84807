"""Which version answers: the documented order, and one and the same refusal."""

from __future__ import annotations

import pytest

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.errors import InvalidRequest, UnknownModel
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView
from graftwork.traffic.choice import Asked, Decision, choose

BASE = "tiny-base"


def version(name: str, semver: str, sequence: int) -> Version:
    digest = "sha256:" + f"{sequence}" * 64
    return Version(
        tenant="local",
        adapter=name,
        semver=semver,
        sequence=sequence,
        digest=digest,
        manifest=Manifest((BundleFile("adapter_config.json", 1, digest),)),
        stage="development",
        kind="lora",
        base=BASE,
        base_digest=digest,
        rank=4,
        bytes=1,
        metadata={},
        created_at="2026-01-31T09:30:00.000000Z",
        created_by="local",
    )


def snapshot() -> Snapshot:
    """`new` never had a production version; `old` has its first in production and a second after it."""
    views = [
        AdapterView.of([version("new", "1.0.0", 1), version("new", "1.1.0", 2)], {}),
        AdapterView.of([version("old", "1.0.0", 3), version("old", "1.1.0", 4)], {"production": 3, "champion": 4}),
    ]
    return Snapshot(1, {(view.tenant, view.name): view for view in views if view is not None})


def chosen(**asked: str | None) -> Decision:
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
