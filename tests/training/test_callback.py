"""GraftworkCallback in a real Trainer with PEFT: what was trained is registered, or nothing of it is lost."""

from __future__ import annotations

import json
import logging
import math
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from graftwork.adapters.identity import identify
from graftwork.client import Client
from graftwork.training import GraftworkCallback
from graftwork.training.fingerprint import fingerprint
from support.fixtures import Tiny

EXAMPLES = [{"input_ids": [1 + n, 2, 3, 4], "labels": [1 + n, 2, 3, 4]} for n in range(4)]


def train(
    tiny: Tiny, folder: Path, callback: GraftworkCallback, *, with_peft: bool = True, name: str = "default"
) -> Trainer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_pretrained(tiny.base.folder)
        if with_peft:
            config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["v_proj", "q_proj"], task_type="CAUSAL_LM")
            model = peft.get_peft_model(model, config, adapter_name=name)
        args = TrainingArguments(
            str(folder), max_steps=2, per_device_train_batch_size=2, learning_rate=3e-3, logging_steps=1,
            save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=7,
        )  # fmt: skip
        trainer = Trainer(model, args, train_dataset=EXAMPLES, callbacks=[callback])
        trainer.train()
    return trainer


def test_what_was_trained_is_registered_with_how_it_was_trained(tiny: Tiny, client: Client, tmp_path: Path) -> None:
    client.push(tiny.adapter("a1"), "notes:1.0.0")
    callback = GraftworkCallback(
        "notes", parent="notes:1.0.0", dataset="file:///notes", metadata={"author": "Ada"}, client=client
    )
    trainer = train(tiny, tmp_path / "run", callback)
    assert callback.error is None
    version = client.show("notes:1.0.1")
    assert version["digest"] == (callback.version or {})["digest"]
    assert version["semantic_digest"] == identify(tmp_path / "run" / "adapter").semantic_digest
    metadata = version["metadata"]
    told = metadata["training"]["hyperparameters"]
    wanted = {"learning_rate": 3e-3, "max_steps": 2, "seed": 7, "r": 2, "lora_alpha": 4}
    assert told | wanted | {"target_modules": ["q_proj", "v_proj"]} == told
    assert not [name for name in told if "token" in name or "dir" in name]
    logged = [entry["train_loss"] for entry in trainer.state.log_history if "train_loss" in entry]
    assert metadata["training"]["metrics"]["train_loss"] == logged[-1]
    assert metadata["datasets"] == [{"uri": "file:///notes", "digest": fingerprint(EXAMPLES)}]
    assert metadata["environment"]["packages"]["transformers"] == transformers.__version__
    assert metadata["parents"] == [f"notes@{client.show('notes:1.0.0')['digest']}"]
    assert (metadata["author"], metadata["adapter"]["rank"]) == ("Ada", 2)
    assert metadata["adapter"]["peft_version"] == peft.__version__


def test_an_adapter_with_a_name_of_its_own_is_found_where_peft_saves_it(
    tiny: Tiny, client: Client, tmp_path: Path
) -> None:
    callback = GraftworkCallback("notes", folder=tmp_path / "mine", client=client)
    train(tiny, tmp_path / "run", callback, name="notes")
    assert (callback.error, callback.folder) == (None, tmp_path / "mine" / "notes")
    assert [adapter["name"] for adapter in client.adapters()] == ["notes"]


def test_a_failed_registration_is_told_and_loses_nothing(
    tiny: Tiny, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    callback = GraftworkCallback("notes", url="http://127.0.0.1:9")
    with caplog.at_level(logging.ERROR):
        train(tiny, tmp_path / "run", callback)
    folder = tmp_path / "run" / "adapter"
    metadata = tmp_path / "run" / "adapter.metadata.json"
    [record] = [record for record in caplog.records if record.name.startswith("graftwork.training")]
    assert f"graftwork push {folder} notes --metadata {metadata}" in record.getMessage()
    assert "No answer from http://127.0.0.1:9" in record.getMessage()
    pushed = client.push(folder, "notes", metadata=json.loads(metadata.read_text()))
    assert pushed["metadata"]["training"]["hyperparameters"]["r"] == 2


@pytest.mark.parametrize("raise_errors", [False, True])
def test_a_model_without_an_adapter_is_told(
    tiny: Tiny, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture, raise_errors: bool
) -> None:
    callback = GraftworkCallback("notes", client=client, raise_errors=raise_errors)
    if raise_errors:
        with pytest.raises(Exception, match="no PEFT model"):
            train(tiny, tmp_path / "run", callback, with_peft=False)
    else:
        train(tiny, tmp_path / "run", callback, with_peft=False)
    assert "no PEFT model" in caplog.text
    assert client.adapters() == []


def test_only_one_process_of_several_registers(tmp_path: Path) -> None:
    class State:
        is_world_process_zero = False

    callback = GraftworkCallback("notes", url="http://127.0.0.1:9", raise_errors=True)
    callback.on_train_end(None, State(), None)
    assert (callback.version, callback.error) == (None, None)


def test_the_package_and_register_need_no_transformers() -> None:
    script = (
        "import sys, graftwork\nfrom graftwork.training import register\n"
        "print(sorted({'transformers', 'torch', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_numbers_that_are_no_numbers_are_left_out() -> None:
    from graftwork.training.hyperparameters import final_metrics

    history: list[dict[str, Any]] = [{"loss": 2.0, "epoch": 1}, {"loss": 1.5, "note": "x"}, {"norm": math.nan}]
    assert final_metrics(history) == {"loss": 1.5}
