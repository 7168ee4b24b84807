"""What searches know of a version."""

from __future__ import annotations

from graftwork.db.index_terms import MAX_FACTS, facts_of


def test_a_long_list_of_modules_pushes_out_no_other_field() -> None:
    modules = [f"layers.{layer}.{name}" for layer in range(100) for name in ("q_proj", "k_proj", "v_proj")]
    metadata = {"adapter": {"target_modules": modules, "rank": 8}, "task": "summarize", "license": "mit"}
    found = {fact.key for fact in facts_of("1.0.0", metadata, {"target_modules": modules, "r": 8})}
    assert {"version", "meta.task", "meta.license", "config.r"} <= found
    assert len(facts_of("1.0.0", metadata, {"target_modules": modules, "r": 8})) == MAX_FACTS
