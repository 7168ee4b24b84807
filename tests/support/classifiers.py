"""Classification adapters as PEFT trains them, and transformers running one of them alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForSequenceClassification


def make_classifier(base: Path, folder: Path, *, labels: int, seed: int = 1, **config: Any) -> Path:
    """A PEFT LoRA for sequence classification, with random A, B and head."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    targets = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}
    made = get_peft_model(_classifier(base, labels), LoraConfig(task_type="SEQ_CLS", **(targets | config)))
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.3 if "lora_A" in name else 0.05)
            elif parameter.requires_grad:
                parameter.normal_(0.0, 0.5)
    made.peft_config["default"].base_model_name_or_path = base.name
    made.save_pretrained(folder)
    return folder


class ClassifierOracle:
    """The base as a sequence classifier with one adapter, in one dtype."""

    def __init__(self, base: Path, adapter: Path, labels: int, dtype: torch.dtype = torch.float32) -> None:
        from peft import PeftModel

        plain = _classifier(base, labels, dtype)
        self._model = PeftModel.from_pretrained(plain, adapter, autocast_adapter_dtype=False).eval()

    @torch.inference_mode()
    def logits(self, tokens: list[int]) -> Tensor:
        """Float32 class logits [labels] of a prompt."""
        logits: Tensor = self._model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        return logits.float()

    @torch.inference_mode()
    def hidden(self, tokens: list[int]) -> Tensor:
        """Float32 final hidden states [tokens, hidden]."""
        output = self._model(input_ids=torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
        states: Tensor = output.hidden_states[-1][0]
        return states.float()


def _classifier(base: Path, labels: int, dtype: torch.dtype = torch.float32) -> Any:
    return AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels, dtype=dtype).eval()
