"""Aliases, promotion and rollback: what moves, who may, and what a reference finds then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graftwork.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from graftwork.registry.pointers import ABSENT

if TYPE_CHECKING:
    from support.desk import Desk


@pytest.fixture
def three(desk: Desk) -> Desk:
    for content in (1, 2, 3):
        desk.push(content)
    return desk


def semver(desk: Desk, reference: str) -> str:
    return desk.registry.show("local", reference).semver


def test_every_form_of_reference_finds_its_version(three: Desk) -> None:
    digest = three.manifest(2).digest()
    three.registry.set_alias("local", "tone", "champion", "tone:1.0.1", actor="me")
    for reference in (
        *(
            "tone:1.0.1",
            "tone:v1.0.1",
            "local/tone:1.0.1",
            "tone@champion",
            "adapters:/tone/2",
            "models:/tone/2",
        ),
        *("models:/tone@champion", f"tone@{digest}", f"tone@{digest[:19]}", "adapters:/local/tone/2"),
    ):
        assert semver(three, reference) == "1.0.1", reference


@pytest.mark.parametrize("reference", ["nope", "tone:9.9.9", "tone@nope", "tone@sha256:" + "0" * 12, "models:/tone/4"])
def test_what_is_not_there_is_not_found_by_name(three: Desk, reference: str) -> None:
    with pytest.raises(NotFound, match=r"tone|nope"):
        three.registry.show("local", reference)


def test_a_bare_name_is_the_newest_version_until_one_is_promoted(three: Desk) -> None:
    assert semver(three, "tone") == "1.0.2"
    three.promote("tone:1.0.0")
    assert semver(three, "tone") == semver(three, "tone@production") == "1.0.0"
    three.push(4)
    assert semver(three, "tone") == "1.0.0"


def test_promotion_moves_stage_and_alias_and_archives_what_it_replaces(three: Desk) -> None:
    assert three.promote("tone:1.0.0").stage == "production"
    promoted = three.promote("tone:1.0.1")
    assert (promoted.stage, promoted.aliases) == ("production", ("production",))
    assert three.stages() == {"1.0.0": "archived", "1.0.1": "production", "1.0.2": "development"}
    assert semver(three, "tone@previous") == "1.0.0"
    payload = three.registry.history("local", "tone")[-1].payload
    assert [(move["alias"], move["to"]["version"]) for move in payload["moves"]] == [
        ("production", "1.0.1"),
        ("previous", "1.0.0"),
    ]
    assert {stage["version"]: stage["to"] for stage in payload["stages"]} == {
        "1.0.0": "archived",
        "1.0.1": "production",
    }


def test_promoting_what_is_in_production_changes_nothing(three: Desk) -> None:
    three.promote("tone:1.0.0")
    before = three.registry.history("local", "tone")
    assert three.promote("tone").semver == "1.0.0"
    assert three.registry.history("local", "tone") == before


def test_rollbacks_go_back_step_by_step(three: Desk) -> None:
    for reference in ("tone:1.0.0", "tone:1.0.1", "tone:1.0.2"):
        three.promote(reference)
    back = three.registry.rollback("local", "tone", actor="me")
    assert (back.semver, back.stage, back.aliases) == ("1.0.1", "production", ("production",))
    assert semver(three, "tone@previous") == "1.0.0"
    assert three.registry.rollback("local", "tone", actor="me").semver == "1.0.0"
    assert three.stages() == {"1.0.0": "production", "1.0.1": "archived", "1.0.2": "archived"}
    with pytest.raises(NotFound):
        three.registry.show("local", "tone@previous")
    with pytest.raises(Conflict, match="no earlier"):
        three.registry.rollback("local", "tone", actor="me")


def test_a_rollback_forgets_the_version_it_left(three: Desk) -> None:
    for reference in ("tone:1.0.0", "tone:1.0.1"):
        three.promote(reference)
    three.registry.rollback("local", "tone", actor="me")
    three.promote("tone:1.0.2")
    assert three.registry.rollback("local", "tone", actor="me").semver == "1.0.0"


def test_a_version_may_come_back_to_production(three: Desk) -> None:
    for reference in ("tone:1.0.0", "tone:1.0.1", "tone:1.0.0"):
        three.promote(reference)
    assert semver(three, "tone@previous") == "1.0.1"
    assert three.registry.rollback("local", "tone", actor="me").semver == "1.0.1"


def test_there_is_nothing_to_roll_back_to_at_first(three: Desk) -> None:
    with pytest.raises(Conflict, match="no earlier"):
        three.registry.rollback("local", "tone", actor="me")
    three.promote("tone")
    with pytest.raises(Conflict, match="no earlier"):
        three.registry.rollback("local", "tone", actor="me")


def test_an_alias_moves_only_from_where_it_was_expected(three: Desk) -> None:
    first, second = three.manifest(1).digest(), three.manifest(2).digest()

    def move(target: str, expected: str | None) -> None:
        three.registry.set_alias("local", "tone", "champion", target, expected=expected, actor="me")

    move("tone:1.0.0", ABSENT)
    with pytest.raises(PreconditionFailed, match=r"tone:1\.0\.0"):
        move("tone:1.0.1", ABSENT)
    with pytest.raises(PreconditionFailed, match=second):
        move("tone:1.0.2", second)
    assert semver(three, "tone@champion") == "1.0.0"
    move("tone:1.0.1", first)
    move("tone:1.0.2", None)
    assert semver(three, "tone@champion") == "1.0.2"


def test_an_alias_that_is_not_there_is_not_where_you_expected(three: Desk) -> None:
    with pytest.raises(PreconditionFailed, match="not set"):
        three.registry.set_alias("local", "tone", "champion", "tone", expected=three.manifest(1).digest(), actor="me")


def test_setting_an_alias_where_it_is_writes_no_event(three: Desk) -> None:
    for _ in range(2):
        three.registry.set_alias("local", "tone", "champion", "tone:1.0.0", actor="me")
    kinds = [event.kind for event in three.registry.history("local", "tone")]
    assert kinds.count("alias.set") == 1


def test_a_removed_alias_is_gone_and_its_version_stays(three: Desk) -> None:
    three.registry.set_alias("local", "tone", "champion", "tone:1.0.0", actor="me")
    with pytest.raises(PreconditionFailed):
        three.registry.remove_alias("local", "tone", "champion", expected=ABSENT, actor="me")
    three.registry.remove_alias("local", "tone", "champion", actor="me")
    with pytest.raises(NotFound, match="champion"):
        three.registry.show("local", "tone@champion")
    with pytest.raises(NotFound, match="champion"):
        three.registry.remove_alias("local", "tone", "champion", actor="me")
    assert semver(three, "tone:1.0.0") == "1.0.0"


def test_production_is_set_by_promotion_only(three: Desk) -> None:
    with pytest.raises(Conflict, match=r"promote tone:1\.0\.0"):
        three.registry.set_alias("local", "tone", "production", "tone:1.0.0", actor="me")
    three.promote("tone:1.0.0")
    shown = three.registry.set_alias("local", "tone", "production", "tone:1.0.0", actor="me")
    assert shown.aliases == ("production",)
    with pytest.raises(Conflict, match="promote"):
        three.registry.remove_alias("local", "tone", "production", actor="me")


def test_previous_is_kept_by_the_registry(three: Desk) -> None:
    with pytest.raises(Conflict, match="previous"):
        three.registry.set_alias("local", "tone", "previous", "tone:1.0.0", actor="me")
    three.promote("tone:1.0.0")
    three.promote("tone:1.0.1")
    with pytest.raises(Conflict, match="previous"):
        three.registry.remove_alias("local", "tone", "previous", actor="me")


@pytest.mark.parametrize("alias", ["latest", "v1", "", "A", "a/b", "sha256:x"])
def test_an_alias_outside_the_grammar_is_refused(three: Desk, alias: str) -> None:
    with pytest.raises(InvalidRequest):
        three.registry.set_alias("local", "tone", alias, "tone", actor="me")
    with pytest.raises(InvalidRequest):
        three.registry.remove_alias("local", "tone", alias, actor="me")


def test_an_alias_stays_within_its_adapter(three: Desk) -> None:
    three.push(9, "voice")
    with pytest.raises(InvalidRequest, match="voice"):
        three.registry.set_alias("local", "tone", "champion", "voice:1.0.0", actor="me")
