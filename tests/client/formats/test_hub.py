"""Repositories of the Hugging Face Hub: a card that it accepts, its cache, and what others put there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import ModelCard, constants

from graftwork.errors import InvalidRequest, NotFound
from graftwork.testing import write_lora
from support.served import Served

Exported = Callable[[Path, str], Path]


def test_its_card_is_one_that_the_hub_accepts(exported: Exported, tmp_path: Path) -> None:
    folder = exported(tmp_path / "repository", "hub")
    card = ModelCard.load(folder / "README.md").data
    assert (card.base_model, card.library_name, card.license) == ("fake/fake-base", "peft", "mit")
    assert (card.language, card.datasets) == (["en"], ["stanfordnlp/sst2"])
    [result] = card.eval_results or []
    assert (result.dataset_name, result.metric_type, result.metric_value) == ("sst2", "accuracy", 0.75)


def test_peft_reads_it(exported: Exported, tmp_path: Path) -> None:
    from peft import PeftConfig

    config = PeftConfig.from_pretrained(str(exported(tmp_path / "repository", "hub")))
    assert config.base_model_name_or_path == "fake/fake-base"


CARD = """---
license: apache-2.0
language: de
datasets: [a/b]
model-index:
- name: x
  results:
  - task: {type: text-generation}
    dataset: {name: d, type: org/d, split: test}
    metrics: [{type: rouge, value: 0.5}]
---
Words.
"""


@pytest.fixture
def repository(source: Served, tmp_path: Path) -> Path:
    """As somebody else put it on the Hub."""
    folder = write_lora(tmp_path / "tone", source.engine.outline)
    (folder / "README.md").write_text(CARD)
    (folder / ".gitattributes").write_text("*.safetensors filter=lfs")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("[core]")
    (folder / ".eval_results").mkdir()
    (folder / ".eval_results" / "hle.yaml").write_text("- dataset: {id: cais/hle}\n  value: 20.5\n")
    return folder


def test_what_others_wrote_brings_its_card_and_its_results(repository: Path, other: Served) -> None:
    with pytest.raises(InvalidRequest, match="what to call it"):
        other.client.packages.import_(repository)
    version = other.client.packages.import_(repository, "tone:2.0.0")
    paths = [file["path"] for file in version["manifest"]["files"]]
    assert paths == [".eval_results/hle.yaml", "README.md", "adapter_config.json", "adapter_model.safetensors"]
    assert version["digest"] == other.client.push(repository, "tone")["digest"]
    told = version["metadata"]
    assert (told["license"], told["language"], told["datasets"]) == ("apache-2.0", ["de"], [{"name": "a/b"}])
    assert told["labels"]["imported_from"] == {"source": "tone", "format": "hub"}
    evaluations = {one["evaluation"]["name"]: one["evaluation"] for one in other.client.evaluations.list("tone")}
    assert set(evaluations) == {"text-generation/org/d", "cais/hle"}
    again = other.client.packages.import_(repository, "tone")
    assert (again["created"], again["added"]["evaluations"]) == (False, 0)


def test_a_card_that_cannot_be_read_is_a_file_like_others(repository: Path, other: Served) -> None:
    (repository / "README.md").write_text("---\n: : [\n---\n")
    assert "license" not in other.client.packages.import_(repository, "tone")["metadata"]


def test_results_that_are_none_are_named(repository: Path, other: Served) -> None:
    (repository / ".eval_results" / "hle.yaml").write_text("- value: 20.5\n")
    with pytest.raises(InvalidRequest, match=r"^\.eval_results/hle\.yaml: .*dataset"):
        other.client.packages.import_(repository, "tone")
    assert other.client.adapters() == []


def test_hugging_faces_own_cache_is_read_offline(
    repository: Path, other: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = tmp_path / "cache" / "models--org--tone"
    snapshot = cached / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (cached / "blobs").mkdir()
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("a" * 40)
    for number, name in enumerate(("adapter_config.json", "adapter_model.safetensors")):
        (cached / "blobs" / str(number)).write_bytes((repository / name).read_bytes())
        (snapshot / name).symlink_to(f"../../blobs/{number}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    version = other.client.packages.import_("hf://org/tone@main", "tone")
    label = {"source": "hf://org/tone@main", "revision": "a" * 40, "format": "hub"}
    assert version["metadata"]["labels"]["imported_from"] == label
    assert other.client.packages.import_(snapshot, "tone")["digest"] == version["digest"]
    with pytest.raises(NotFound, match="neither be fetched"):
        other.client.packages.import_("hf://org/other", "tone")
    with pytest.raises(InvalidRequest, match="ORG/NAME"):
        other.client.packages.import_("hf://../../etc", "tone")
