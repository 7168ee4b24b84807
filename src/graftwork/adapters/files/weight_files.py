"""Which files of an adapter folder hold its weights: one file, or shards with or without an index.

Names: https://huggingface.co/docs/peft/developer_guides/checkpoint (`adapter_model`), https://docs.adapterhub.ml
(`adapter.safetensors`, `pytorch_adapter.bin`); the index is that of transformers' sharded checkpoints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from graftwork.adapters.files.json_file import read_object
from graftwork.adapters.files.pickled import read_pickled
from graftwork.adapters.files.safetensors_file import read_safetensors
from graftwork.adapters.files.stored_tensor import StoredTensor
from graftwork.errors import Refused

#: Every name that weights come under, best first: of several that are there, the first is read.
WEIGHT_NAMES = (
    "adapter_model.safetensors",
    "adapter.safetensors",
    "adapter_model.bin",
    "adapter_model.pt",
    "pytorch_adapter.bin",
)
_READERS: Mapping[str, Callable[[Path], Iterable[StoredTensor]]] = {
    ".safetensors": read_safetensors,
    ".bin": read_pickled,
    ".pt": read_pickled,
}
_MAX_INDEX_BYTES = 16 << 20
_LFS_MARK = b"version https://git-lfs"
_SHOWN = 5


@dataclass(frozen=True)
class WeightFiles:
    """The files to read, in order, what an index says of each tensor, and the names that are there as well."""

    files: tuple[Path, ...]
    weight_map: Mapping[str, str] | None
    unread: tuple[str, ...]

    def tensors(self) -> dict[str, StoredTensor]:
        """Every tensor of all files, sorted by name.

        Raises:
            Refused: a file is damaged, or the files contradict each other or the index.
        """
        found: dict[str, StoredTensor] = {}
        place: dict[str, str] = {}
        for file in self.files:
            _check_no_pointer(file)
            for tensor in _READERS[file.suffix](file):
                if tensor.name in found:
                    raise Refused(f"{tensor.name} is in both {place[tensor.name]} and {file.name}.")
                found[tensor.name], place[tensor.name] = tensor, file.name
        if self.weight_map is not None:
            _check_index(self.weight_map, place)
        return dict(sorted(found.items()))


def find_weights(folder: Path) -> WeightFiles:
    """The weights of a folder, by the first name of the table that is there, whole or in shards.

    Raises:
        Refused: there are none, or a shard is missing, or the index cannot be read or names something else.
    """
    found = [files for name in WEIGHT_NAMES for files in (_whole(folder, name), _sharded(folder, name)) if files]
    if not found:
        raise Refused(f"{WEIGHT_NAMES[0]} is missing from the adapter folder, and so is every other name of weights.")
    first, *others = found
    weight_map = _weight_map(first)
    files = first if weight_map is None else [folder / name for name in sorted(set(weight_map.values()))]
    if weight_map is None and first[0].name not in WEIGHT_NAMES:
        _check_complete(first)
    if weight_map is not None and (extra := sorted({file.name for file in first[1:]} - set(weight_map.values()))):
        raise Refused(f"{extra[0]} is a shard that {first[0].name} does not name.")
    return WeightFiles(tuple(files), weight_map, tuple(file[0].name for file in others))


def _whole(folder: Path, name: str) -> list[Path]:
    return [folder / name] if (folder / name).is_file() else []


def _sharded(folder: Path, name: str) -> list[Path]:
    """The index, if there is one, and then the shards."""
    stem, _, ending = name.rpartition(".")
    shard = re.compile(rf"{re.escape(stem)}-\d+-of-\d+\.{ending}")
    index = folder / f"{name}.index.json"
    return [index] * index.is_file() + sorted(file for file in folder.iterdir() if shard.fullmatch(file.name))


def _weight_map(files: list[Path]) -> dict[str, str] | None:
    """What the index says, if the first file is one: tensor name to the name of a file beside it."""
    index = files[0]
    if index.suffix != ".json":
        return None
    weight_map = (read_object(index, _MAX_INDEX_BYTES) or {}).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Refused(f"{index.name}: weight_map is missing or empty; it must say which file holds which tensor.")
    ending = Path(index.name.removesuffix(".index.json")).suffix
    for tensor, name in weight_map.items():
        _check_shard_name(index, tensor, name, ending)
    return weight_map


def _check_shard_name(index: Path, tensor: str, name: object, ending: str) -> None:
    if not isinstance(name, str) or re.fullmatch(rf"[A-Za-z0-9_][A-Za-z0-9._-]*{re.escape(ending)}", name) is None:
        raise Refused(
            f"{index.name}: {tensor[:200]} is said to be in {str(name)[:200]!r}, which is not a {ending} file of this "
            "folder."
        )
    if not (index.parent / name).is_file():
        raise Refused(f"{name[:200]} is missing; {index.name} says that it holds {tensor[:200]}.")


def _check_complete(shards: list[Path]) -> None:
    """Refuse shards without an index unless they are 1 to n of n."""
    numbers = [[int(part) for part in re.findall(r"\d+", shard.stem)[-2:]] for shard in shards]
    if [first for first, _ in numbers] != list(range(1, len(shards) + 1)) or {last for _, last in numbers} != {
        len(shards)
    }:
        names = ", ".join(shard.name for shard in shards[:_SHOWN])
        raise Refused(f"The shards of the weights are not complete, and no index says which there are: {names}.")


def _check_index(weight_map: Mapping[str, str], place: Mapping[str, str]) -> None:
    for name in sorted(weight_map.keys() | place.keys()):
        said, held = weight_map.get(name), place.get(name)
        if said != held:
            where = f"is in {held}" if held else "is in none of the shards"
            raise Refused(f"{name[:200]} {where}, but the index says {said or 'nothing of it'}.")


def _check_no_pointer(file: Path) -> None:
    with file.open("rb") as stream:
        head = stream.read(len(_LFS_MARK))
    if head == _LFS_MARK:
        raise Refused(f"{file.name} is a Git LFS pointer, not the weights. Run `git lfs pull` and push again.")
