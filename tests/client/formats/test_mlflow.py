"""MLflow's model directories: written as MLflow writes them, read without it, and with it from its own registry."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from graftwork.errors import InvalidRequest, NotFound, Refused
from graftwork.testing import write_lora
from support.served import Served

Exported = Callable[[Path, str], Path]


MODEL = """
flavors:
  python_function: {loader_module: mlflow.transformers}
  transformers: {peft_adaptor: peft, source_model_name: fake/fake-base, task: text-generation}
mlflow_version: 3.17.2
model_uuid: 0123456789abcdef
run_id: fedcba9876543210
utc_time_created: '2026-01-01 10:00:00.000000'
"""


@pytest.fixture
def logged(source: Served, tmp_path: Path) -> Path:
    """As `mlflow.transformers.log_model` writes a PEFT model."""
    folder = tmp_path / "model"
    write_lora(folder / "peft", source.engine.outline)
    (folder / "components" / "tokenizer").mkdir(parents=True)
    (folder / "components" / "tokenizer" / "tokenizer.json").write_text("{}")
    (folder / "MLmodel").write_text(MODEL)
    (folder / "requirements.txt").write_text("mlflow\n")
    return folder


def test_written_as_its_transformers_flavor_is(exported: Exported, tmp_path: Path) -> None:
    folder = exported(tmp_path / "model", "mlflow")
    model = yaml.safe_load((folder / "MLmodel").read_text())
    assert model["flavors"]["transformers"] == {
        "task": "text-generation",
        "instance_type": "TextGenerationPipeline",
        "pipeline_model_type": "LlamaForCausalLM",
        "source_model_name": "fake/fake-base",
        "source_model_revision": "main",
        "peft_adaptor": "peft",
        "components": ["tokenizer"],
        "tokenizer_type": "AutoTokenizer",
        "tokenizer_name": "fake/fake-base",
        "tokenizer_revision": "main",
    }
    assert model["metadata"]["graftwork"] == "alpha:1.2.0"
    assert sorted(path.name for path in (folder / "peft").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


@pytest.mark.parametrize("named", [True, False], ids=["named by the flavor", "found"])
def test_only_the_adapter_of_a_logged_model_comes_in(logged: Path, source: Served, other: Served, named: bool) -> None:
    if not named:
        (logged / "MLmodel").write_text("run_id: fedcba9876543210\nflavors: {}\n")
    version = other.client.packages.import_(logged, "tone")
    assert version["digest"] == source.client.show("alpha")["digest"]
    label = version["metadata"]["labels"]["imported_from"]
    assert (label["format"], label["run_id"], label["source"]) == ("mlflow", "fedcba9876543210", "model")


@pytest.mark.parametrize(
    "model",
    [
        "flavors: {transformers: {peft_adaptor: ../..}}",
        "flavors: {transformers: {peft_adaptor: /etc}}",
        "flavors: {transformers: {peft_adaptor: [peft]}}",
        "flavors: 3",
    ],
)
def test_what_a_model_names_can_lead_nowhere_else(logged: Path, source: Served, other: Served, model: str) -> None:
    (logged / "MLmodel").write_text(model)
    version = other.client.packages.import_(logged, "tone")  # the one adapter that there is
    assert version["digest"] == source.client.show("alpha")["digest"]


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("- a list", InvalidRequest),
        ("a: &x [1]\nb: *x", InvalidRequest),
        ("{", InvalidRequest),
        ("x" * (2 << 20), InvalidRequest),
    ],
    ids=["list", "alias", "no YAML", "large"],
)
def test_a_model_that_cannot_be_read_is_named(logged: Path, other: Served, model: str, error: Any) -> None:
    (logged / "MLmodel").write_text(model)
    with pytest.raises(error, match="MLmodel"):
        other.client.packages.import_(logged, "tone")


def test_of_several_adapters_none_is_guessed(logged: Path, source: Served, other: Served) -> None:
    write_lora(logged / "second", source.engine.outline)
    (logged / "MLmodel").write_text("flavors: {}")
    with pytest.raises(Refused, match="holds 2 adapters"):
        other.client.packages.import_(logged, "tone")


def test_without_mlflow_its_uris_say_what_to_install(other: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.artifacts", None)
    with pytest.raises(InvalidRequest, match="pip install mlflow-skinny"):
        other.client.packages.import_("models:/tone/1", "tone")


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_from_mlflows_own_registry(
    source: Served, exported: Exported, other: Served, logged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("mlflow") is None:
        pytest.skip("mlflow is not installed (pip install mlflow-skinny)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    folder = exported(tmp_path / "exported", "mlflow")
    client = mlflow.MlflowClient()
    client.create_registered_model("tone")
    client.create_model_version("tone", source=str(folder))
    version = other.client.packages.import_("models:/tone/1", "tone")
    assert version["digest"] == source.client.show("alpha")["digest"]
    assert version["metadata"]["labels"]["imported_from"]["source"] == "models:/tone/1"
    with pytest.raises(NotFound, match="MLflow does not give"):
        other.client.packages.import_("models:/tone/2", "tone")
    with mlflow.start_run() as run:
        mlflow.log_param("learning_rate", "1e-4")
        mlflow.log_metric("loss", 0.5)
        mlflow.log_metric("broken", float("nan"))
    (logged / "MLmodel").write_text(MODEL.replace("fedcba9876543210", run.info.run_id))
    client.create_model_version("tone", source=str(logged))
    metadata = other.client.packages.import_("models:/tone/2", "logged")["metadata"]
    assert metadata["training"] == {"hyperparameters": {"learning_rate": "1e-4"}, "metrics": {"loss": 0.5}}
    assert metadata["labels"]["imported_from"]["run_id"] == run.info.run_id
