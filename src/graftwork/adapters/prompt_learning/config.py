"""The fields of PEFT's prompt learning configs, and the one tensor that all of them save.

Fields: `peft.config.PromptLearningConfig`. Format: `BasePromptEncoder._get_adapter_state_dict`; what a training
encoder (`prefix_projection`, P-tuning's MLP or LSTM) makes of its own weights is saved, not the encoder.
"""

from __future__ import annotations

from collections.abc import Collection

from graftwork.adapters.checks import base_warnings, entry, shape_problem, unmatched_problems, value_problem
from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry

TENSOR = "prompt_embeddings"


def read_virtual_tokens(folder: AdapterFolder, outline: Outline, ignored: Collection[str]) -> tuple[ConfigFields, int]:
    """The config with its common fields read, and the number of virtual tokens."""
    fields = ConfigFields(folder.config, ignored)
    count = fields.whole("num_virtual_tokens", most=outline.max_context - 1)
    if fields.value("task_type") != "CAUSAL_LM":
        fields.bad("task_type", "CAUSAL_LM: for another task PEFT does something else with virtual tokens")
    fields.refused("num_transformer_submodules", "an encoder-decoder model", 1)
    fields.refused("modules_to_save", "whole replaced modules beside virtual tokens")
    return fields, count


def account_virtual_tokens(
    folder: AdapterFolder, outline: Outline, fields: ConfigFields, shape: tuple[int, int], what: str
) -> tuple[list[TensorEntry], list[str], list[str]]:
    """The account of the one tensor, whose shape the config and the base demand; anything else is unmatched."""
    others = [tensor for name, tensor in folder.tensors.items() if name != TENSOR]
    entries = [entry(tensor, used=False, reason=f"not {TENSOR}") for tensor in others]
    problems = fields.problems() + unmatched_problems([f"{line.name} ({line.reason})" for line in entries])
    stored = folder.tensors.get(TENSOR)
    if stored is None:
        return entries, [*problems, f"{TENSOR} is missing."], []
    wrong = None if fields.problems() else shape_problem(stored, shape, what) or value_problem(stored)
    problems += [wrong] if wrong else []
    entries.append(entry(stored, used=not problems, reason=problems[0] if problems else what, part=TENSOR))
    return entries, problems, fields.warnings() + base_warnings(folder.config, outline)
