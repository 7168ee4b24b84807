"""Head: the output head that the `adapters` library saves beside an adapter of a plain language model.

The library writes it by default, trained or not; whether it is the base's own is only seen where the base is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graftwork.adapters.checks import entry, shape_problem, value_problem
from graftwork.adapters.files.json_file import read_object
from graftwork.adapters.files.weight_files import WeightFiles
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.errors import Refused

_CONFIG_NAME = "head_config.json"
_MAX_CONFIG_BYTES = 1 << 20
#: Safetensors first, as for the adapter itself.
_WEIGHTS_NAMES = ("model_head.safetensors", "pytorch_model_head.bin")


@dataclass(frozen=True)
class Head:
    """The one tensor of a plain head, [vocab_size, hidden_size], and the account's lines and problems of all."""

    tensor: StoredTensor | None
    entries: tuple[TensorEntry, ...]
    problems: tuple[str, ...]


def read_head(folder: AdapterFolder, outline: Outline) -> Head:
    """The head in a folder, if there is one.

    Raises:
        Refused: when its file cannot be read.
    """
    file = next((folder.path / name for name in _WEIGHTS_NAMES if (folder.path / name).is_file()), None)
    if file is None:
        return Head(None, (), ())
    if (reason := _unfit(folder, outline)) is not None:
        return Head(None, (), (f"{file.name}: {reason}",))
    assert outline.head is not None, "checked to be there"
    wanted = f"{outline.head.path}.weight"
    shape = (outline.head.out_features, outline.head.in_features)
    return _accounted(WeightFiles((file,), None, ()).tensors(), wanted, shape, file.name)


def _accounted(tensors: Mapping[str, StoredTensor], wanted: str, shape: tuple[int, int], file: str) -> Head:
    found = tensors.get(wanted)
    entries, problems = [], []
    for tensor in tensors.values():
        if tensor is found:
            problem = shape_problem(tensor, shape, "the base's output head") or value_problem(tensor)
            reason = problem or "output head; nothing is kept of it where it is the base's own"
        else:
            problem = f"{tensor.name}: {file} may hold {wanted} only."
            reason = "not the weight of a plain output head"
        problems += [problem] if problem else []
        entries.append(entry(tensor, used=problem is None, reason=reason, module=wanted.removesuffix(".weight")))
    if found is None:
        problems.append(f"{wanted} is missing from {file}.")
    return Head(found, tuple(entries), tuple(problems))


def _unfit(folder: AdapterFolder, outline: Outline) -> str | None:
    if outline.head is None or outline.head.bias:
        return f"the output head of {outline.architecture} is not a plain matrix that an adapter could replace."
    config = read_object(folder.path / _CONFIG_NAME, _MAX_CONFIG_BYTES)
    if config is None:
        raise Refused(f"{_CONFIG_NAME} is missing beside the head's weights; it says what they are for.")
    inner = config.get("config")
    if inner is None:
        return None
    kind = inner.get("head_type") if isinstance(inner, dict) else inner
    return (
        f"a prediction head of an AdapterModel class (head_type {str(kind)[:80]!r}) is not supported; save with "
        "with_head=False, or train with the plain language model's class."
    )
