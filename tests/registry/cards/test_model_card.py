"""Model cards: the Hub reads them; the generated part follows the facts, and what people wrote stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from huggingface_hub import ModelCard

from graftwork.registry.cards.facts import Facts, facts_of
from graftwork.registry.cards.model_card import BEGIN, END, model_card

OWN = """---
license: mit
base_model: somebody/else
widget: [{text: Hello}]
tags: [mine]
---
# My adapter

Use it kindly.
"""


def test_the_hub_reads_it(facts: Facts) -> None:
    data = ModelCard(model_card(facts, None)).data
    assert (data.library_name, data.base_model, data.license) == (
        "peft",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "apache-2.0",
    )
    assert data.to_dict()["base_model_relation"] == "adapter"
    assert (data.language, data.datasets) == (["en", "de"], ["org/tickets", "chats"])
    assert (data.pipeline_tag, data.metrics) == ("text-generation", ["accuracy", "f1"])
    results = [
        (one.dataset_name, one.dataset_split, one.metric_type, one.metric_value) for one in data.eval_results or []
    ]
    assert results == [("tickets", "test", "accuracy", 0.875), ("tickets", "test", "f1", 0.5)]


def test_people_are_told_more_than_the_hub(facts: Facts) -> None:
    card = model_card(facts, None)
    for row in ("| latency |  | p50\\_ms | 12.5 | offline |", "| alpha | 16 |", "| epochs | 3 |", "| Author | ada |"):
        assert row in card
    assert "https://example.org/train 0123abc" in card


def test_little_is_enough(few_facts: Facts) -> None:
    card = ModelCard(model_card(few_facts, None))
    assert card.data.to_dict() == {
        "library_name": "peft",
        "base_model": "smollm2-135m",
        "base_model_relation": "adapter",
        "tags": ["lora", "graftwork"],
    }
    assert "# tone:1.2.0" in card.text


def test_what_people_wrote_stays_and_facts_cannot_be_contradicted(facts: Facts) -> None:
    card = ModelCard(model_card(facts, OWN.encode()))
    told = card.data.to_dict()
    assert card.text.endswith("# My adapter\n\nUse it kindly.\n")
    assert told["widget"] == [{"text": "Hello"}]
    assert (told["license"], told["base_model"]) == ("apache-2.0", "HuggingFaceTB/SmolLM2-135M-Instruct")
    assert told["tags"] == ["mine", "support", "lora", "graftwork"]


def test_generating_again_changes_only_what_is_generated(facts: Facts) -> None:
    once = model_card(facts, OWN.encode())
    assert model_card(facts, once.encode()) == once
    edited = once.replace("accuracy", "forged").replace("Use it", "Please use it")
    assert model_card(facts, edited.encode()) == once.replace("Use it", "Please use it")
    fewer = model_card(replace(facts, measured=()), once.encode())
    assert "Evaluation" not in fewer and "Use it kindly." in fewer
    assert (fewer.count(BEGIN), fewer.count(END)) == (1, 1)


def test_names_are_text_and_neither_markup_nor_cells(facts: Facts) -> None:
    card = model_card(facts, None)
    assert r"Answers \<b\>politely\</b\> \| and briefly." in card
    assert "<b>" not in card.partition(BEGIN)[2]


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}\nx"])
def test_half_a_mark_in_what_people_wrote_harms_nothing(facts: Facts, text: str) -> None:
    once = model_card(facts, text.encode())
    assert model_card(facts, once.encode()).count("## Training") == 1


def test_many_beginnings_without_an_end_are_text_and_take_no_time(facts: Facts) -> None:
    text = "<!-- graftwork: begin " * 40_000
    assert text.strip() in model_card(facts, text.encode())


def test_what_it_was_measured_on_is_no_training_data(facts: Facts) -> None:
    told = {"datasets": [{"uri": "org/train"}, {"uri": "org/held-out", "role": "evaluated_on"}]}
    assert [one.name for one in facts_of(replace(facts.version, metadata=told), {}, []).datasets] == ["org/train"]
