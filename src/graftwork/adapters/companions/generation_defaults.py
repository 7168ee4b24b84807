"""GenerationDefaults: how an adapter's author wants its answers drawn where a request does not say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graftwork.adapters.files.json_file import read_object

_NAME = "generation_config.json"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class GenerationDefaults:
    """None: the adapter does not say."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None

    def to_json(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def sampling(self) -> dict[str, float]:
        """Those that are parameters of the draw; how long an answer may be is the engine's to apply."""
        return {name: value for name, value in self.to_json().items() if name != "max_new_tokens"}


NO_DEFAULTS = GenerationDefaults()


@dataclass(frozen=True)
class FoundDefaults:
    defaults: GenerationDefaults = NO_DEFAULTS
    stop_ids: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def used(self) -> bool:
        return bool(self.stop_ids or self.defaults.to_json())


def _within(low: float, high: float, *, whole: bool = False) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            return False
        return low <= value <= high and abs(value) < 3e38

    return fits


_RANGES: dict[str, tuple[str, Callable[[object], bool]]] = {
    "temperature": ("a finite number of at least 0", _within(0, math.inf)),
    "top_p": ("a number from 0 to 1", _within(0, 1)),
    "top_k": ("a whole number of at least 0", _within(0, 2**31 - 1, whole=True)),
    "min_p": ("a number from 0 to 1", _within(0, 1)),
    "repetition_penalty": ("a number from 0.01 to 100", _within(0.01, 100)),
    "max_new_tokens": ("a whole number of at least 1", _within(1, 2**31 - 1, whole=True)),
}
#: Fields that change nothing here, whatever they hold.
_HARMLESS = {
    "do_sample", "eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id", "transformers_version",
    "_from_model_config", "_commit_hash", "max_length", "use_cache", "return_dict_in_generate", "output_scores",
    "output_logits", "output_attentions", "output_hidden_states", "cache_implementation", "cache_config",
}  # fmt: skip
#: Values that ask for nothing, of fields that are not served.
_NEUTRAL: tuple[object, ...] = (None, False, 0, 1, 1.0, [], {}, "")


def read_generation_defaults(folder: Path) -> FoundDefaults:
    """The defaults and stop tokens of generation_config.json; `do_sample: false` is temperature 0.

    Raises:
        Refused: the file cannot be read as a JSON object.
    """
    config = read_object(folder / _NAME, _MAX_BYTES)
    if config is None:
        return FoundDefaults()
    found: dict[str, Any] = {}
    problems = []
    for name, (wanted, fits) in _RANGES.items():
        value = config.get(name)
        if value is None:
            continue
        if fits(value):
            found[name] = value
        else:
            problems.append(f"{_NAME}: {name} is {str(value)[:80]}; it must be {wanted}.")
    if config.get("do_sample") is False:
        found["temperature"] = 0.0
    stop_ids, wrong = _stop_ids(config.get("eos_token_id"))
    others = sorted(config.keys() - _RANGES.keys() - _HARMLESS)
    unserved = [name for name in others if not any(config[name] == neutral for neutral in _NEUTRAL)]
    warnings = [f"{_NAME}: {', '.join(unserved)[:200]} has no effect here."] if unserved else []
    return FoundDefaults(GenerationDefaults(**found), stop_ids, (*problems, *wrong), tuple(warnings))


def _stop_ids(value: object) -> tuple[tuple[int, ...], list[str]]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    ids = tuple(one for one in values if type(one) is int and one >= 0)
    if len(ids) < len(values) or len(ids) > 64:
        return (), [f"{_NAME}: eos_token_id is {str(value)[:80]}; it must be a token id or up to 64 of them."]
    return ids, []
