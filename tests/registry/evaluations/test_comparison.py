"""Versions side by side: what is joined, what is not, what changed, and whether it is more than chance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.errors import InvalidRequest, NotFound
from graftwork.registry.evaluations import comparison
from support.evaluations import inference, put

if TYPE_CHECKING:
    from registry.evaluations.conftest import Book

A, B, C = "tone:1.0.0", "tone:1.0.1", "tone:1.0.2"


@pytest.fixture(autouse=True)
def _three(book: Book) -> None:
    for content in (2, 3):
        book.desk.push(content, metadata={"data": {"rows": content}})


def compared(book: Book, *references: str, **options: Any) -> dict[tuple[str, str | None, str], dict[str, Any]]:
    found = book.evaluations.compare("local", references or (A, B), **options)
    return {(row["name"], row["split"], row["metric"]): row for row in found["metrics"]}


def test_numbers_of_the_same_name_data_and_split_stand_beside_each_other(book: Book) -> None:
    book.add(A, value=0.5)
    book.add(B, value=0.75)
    book.add(C, value=0.25)
    row = compared(book, A, B, C)["sst2", "test", "accuracy"]
    assert [one["value"] for one in row["values"]] == [0.5, 0.75, 0.25]
    told = [(one["delta"], one["relative"], one["direction"]) for one in row["deltas"]]
    assert told == [(0.25, 0.5, "better"), (-0.25, -0.5, "worse")]
    assert row["notes"] == []


def test_lower_may_be_better_and_nobody_may_know(book: Book) -> None:
    for reference, value in ((A, 2.0), (B, 1.0)):
        book.add(
            reference,
            metrics=[
                {"name": "loss", "value": value, "higher_is_better": False},
                {"name": "odd", "value": value},
                {"name": "even", "value": 1.0, "higher_is_better": True},
            ],
        )
    rows = compared(book)
    found = {metric: row["deltas"][0]["direction"] for (_, _, metric), row in rows.items()}
    assert found == {"loss": "better", "odd": "unknown", "even": "same"}
    assert list(compared(book, metrics=["odd"])) == [("sst2", "test", "odd")]


def test_what_was_measured_on_something_else_is_not_compared(book: Book) -> None:
    book.add(A, value=0.5)
    book.add(B, value=0.9, split="validation")
    book.add(B, value=0.9, dataset={"id": "stanfordnlp/sst2", "revision": "abc"})
    book.add(A, **inference())
    book.add(B, **inference(load={"clients": 1, "prompt_tokens": 128, "output_tokens": 64}))
    for row in book.evaluations.compare("local", [A, B])["metrics"]:
        assert row["deltas"] == [None] and None in row["values"]


def test_what_makes_them_less_comparable_is_told(book: Book) -> None:
    book.add(A, conditions={"shots": 0}, tool={"name": "ours"}, metrics=[{"name": "a", "value": 1, "unit": "%"}])
    book.add(B, conditions={"shots": 5}, metrics=[{"name": "a", "value": 1e308, "higher_is_better": True}])
    row = compared(book)["sst2", "test", "a"]
    assert row["notes"] == ["units differ: %, None", "tool differs", "condition shots differs"]
    assert row["deltas"] == [None]
    book.add(A, metrics=[{"name": "a", "value": -1.7e308, "higher_is_better": False}])
    row = compared(book)["sst2", "test", "a"]
    assert row["higher_is_better"] is None and "do not agree" in row["notes"][0]
    assert row["deltas"][0]["delta"] is None  # larger than a number can be
    json.dumps(row, allow_nan=False)


def test_the_last_counts_and_what_is_superseded_does_not(book: Book) -> None:
    for value in (0.1, 0.2):
        book.add(A, value=value)
    book.add(B, value=0.7, name="wrong-name")
    book.add(B, value=0.7, supersedes=1)
    assert list(rows := compared(book)) == [("sst2", "test", "accuracy")]
    assert [one["value"] for one in rows["sst2", "test", "accuracy"]["values"]] == [0.2, 0.7]


def test_results_by_example_are_tested_on_the_ids_in_common_and_corrected_together(book: Book) -> None:
    before = {str(n): n % 2 for n in range(40)}
    after = {str(n): 1 for n in range(1, 44)}
    book.add(A, examples=book.examples(before))
    for reference in (B, C):
        book.add(reference, examples=book.examples(after))
    found = book.evaluations.compare("local", [A, B, C])
    tests = [one["paired"] for one in found["metrics"][0]["deltas"]]
    assert [(one["test"], one["matched"], one["unmatched"]) for one in tests] == [("McNemar", 39, 5)] * 2
    assert tests[0]["p"] == pytest.approx(2 * 0.5**19)
    assert tests[0]["p_corrected"] == pytest.approx(2 * tests[0]["p"])
    assert tests[0]["significant"] is True
    assert found["correction"] == {"method": "Holm", "tests": 2, "alpha": 0.05}
    without = book.evaluations.compare("local", [A, B, C], paired=False)
    assert without["correction"] is None and without["metrics"][0]["deltas"][0]["paired"] is None


def test_without_ids_in_common_there_is_no_test_and_it_says_so(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    book.add(A, examples=book.examples({"a": 1, "b": 0}))
    book.add(B, examples=book.examples({"b": 1, "c": 0}))
    row = compared(book)["sst2", "test", "accuracy"]
    assert row["deltas"][0]["paired"] is None
    assert row["notes"] == ["1.0.1 has 1 examples in common with the first: no test"]
    monkeypatch.setattr(comparison, "MAX_TESTS", 0)
    with pytest.raises(InvalidRequest, match="say which metrics"):
        compared(book)


def test_what_differs_of_config_and_metadata_is_listed(book: Book) -> None:
    for rank, targets in ((8, ["v", "q"]), (16, ["q", "v"])):
        config = json.dumps(
            {"r": rank, "lora_alpha": float("nan"), "target_modules": targets, "own": {"x": rank, "y": [float("-inf")]}}
        )
        file = BundleFile("adapter_config.json", len(config), put(book.store, config.encode()))
        book.desk.registry.push(
            "local", "own", Manifest((file,)), kind="lora", base="tiny", base_digest="sha256:" + "b" * 64,
            rank=rank, bytes=8, account={"ok": True}, metadata={"epochs": rank // 8, "seed": 1}, actor="me",
        )  # fmt: skip
    found = book.evaluations.compare("local", ["own:1.0.0", "own:1.0.1"])
    assert {one["field"]: one["values"] for one in found["differences"]} == {
        "rank": [8, 16],
        "config.own.x": [8, 16],
        "config.r": [8, 16],
        "metadata.epochs": [1, 2],
    }
    assert [one["rank"] for one in found["versions"]] == [8, 16]
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("references", [[], [A], [A, A], [A, "tone"], [A, B] * 9])
def test_two_or_more_different_versions_are_compared(book: Book, references: list[str]) -> None:
    if references == [A, "tone"]:
        book.desk.promote(A)  # the same by another word
    with pytest.raises(InvalidRequest) as caught:
        book.evaluations.compare("local", references)
    assert caught.value.field == "reference"


def test_a_trend_has_a_series_for_each_data_set_with_changes_from_version_to_version(book: Book) -> None:
    for reference, value in ((A, 0.5), (A, 0.4), (B, 0.6), (C, 0.3)):
        book.add(reference, value=value)
    book.add(C, value=0.8, split="validation")
    book.add(B, value=0.7, supersedes=1)
    found = book.evaluations.trend("local", "tone", "accuracy")["series"]
    series = {one["split"]: [(p["version"], p["value"], p["direction"]) for p in one["points"]] for one in found}
    assert series == {
        "test": [("1.0.0", 0.4, None), ("1.0.1", 0.7, "better"), ("1.0.2", 0.3, "worse")],
        "validation": [("1.0.2", 0.8, None)],
    }
    book.add(A, metrics=[{"name": "huge", "value": 1.7e308}])
    book.add(B, metrics=[{"name": "huge", "value": -1.7e308}])
    (huge,) = book.evaluations.trend("local", "tone", "huge")["series"]
    assert [point["delta"] for point in huge["points"]] == [None, None]
    newest = book.evaluations.trend("local", "tone", "accuracy", limit=2)["series"]
    assert [len(one["points"]) for one in newest] == [1, 1]
    with pytest.raises(NotFound, match=r"No metric 'hug' .* Did you mean huge\? There are accuracy, huge\."):
        book.evaluations.trend("local", "tone", "hug")
    with pytest.raises(NotFound, match=r"No metric 'nope' was measured of these versions\."):
        book.evaluations.compare("local", [A, B], metrics=["huge", "nope"])
