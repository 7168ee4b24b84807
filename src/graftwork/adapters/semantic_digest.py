"""semantic_digest: one digest for the same adapter, however its files were written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.adapters.config_fields import is_whole
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import weights_digest
from graftwork.protocol.canonical import canonical, sha256

_LARGEST_INTEGER = 1 << 53
#: Filled in by whoever saved the config; says where an adapter came from, not what it does.
_PROVENANCE = frozenset(
    {
        "auto_mapping", "base_model_name_or_path", "config_id", "inference_mode", "model_name", "peft_version",
        "revision", "runtime_config",
    }
)  # fmt: skip
_OF_TRAINING_LORA = frozenset(
    {
        "corda_config", "eva_config", "fan_in_fan_out", "init_lora_weights", "loftq_config", "lora_dropout",
        "lora_ga_config", "megatron_core", "qalora_group_size",
    }
)  # fmt: skip
_OF_TRAINING_LYCORIS = frozenset(
    {"init_weights", "module_dropout", "rank_dropout", "rank_dropout_scale", "use_effective_conv2d"}
)
_SIZES_OF_THE_BASE = frozenset({"num_attention_heads", "num_layers"})
#: By `peft_type`, what has no effect on an adapter that was trained; a test holds these to what the kinds pass over.
OF_TRAINING: Mapping[str, frozenset[str]] = {
    "LORA": _OF_TRAINING_LORA,
    "BOTTLENECK": frozenset(
        {
            "cross_adapter", "dropout", "hypercomplex_nonlinearity", "init_weights", "init_weights_seed", "learn_phm",
            "phm_c_init", "phm_init_range", "stochastic_depth",
        }
    ),
    "ADALORA": _OF_TRAINING_LORA
    | {
        "alpha_pattern", "beta1", "beta2", "deltaT", "ensure_weight_tying", "orth_reg_weight", "r", "target_r",
        "tfinal", "tinit", "total_step", "use_rslora",
    },
    "IA3": frozenset({"fan_in_fan_out", "init_ia3_weights"}),
    "LOHA": _OF_TRAINING_LYCORIS,
    "LOKR": _OF_TRAINING_LYCORIS,
    "VERA": frozenset({"d_initial", "fan_in_fan_out", "init_weights", "vera_dropout"}),
    "PREFIX_TUNING": frozenset({"encoder_hidden_size", "init_weights", "prefix_projection"}),
    "PROMPT_TUNING": _SIZES_OF_THE_BASE
    | {"prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_kwargs", "tokenizer_name_or_path"},
    "P_TUNING": _SIZES_OF_THE_BASE
    | {"encoder_dropout", "encoder_hidden_size", "encoder_num_layers", "encoder_reparameterization_type"},
}  # fmt: skip
#: Lists that PEFT keeps as sets and writes in any order; one value alone is as a list of it where `_LISTS` says so.
_SETS = frozenset(
    {
        "target_modules", "exclude_modules", "feedforward_modules", "modules_to_save", "layers_pattern",
        "layers_to_transform",
    }
)  # fmt: skip
_LISTS = frozenset({"layers_pattern", "layers_to_transform"})
#: Of these the first key that matches wins, so that their order counts, which an object of canonical JSON has not.
_ORDERED = frozenset({"rank_pattern", "alpha_pattern"})
#: Defaults that are more than absence.
_DEFAULTS: Mapping[str, object] = {
    "bias": "none", "decompose_factor": -1, "projection_prng_key": 0, "save_projection": True,
}  # fmt: skip


def semantic_digest(folder: AdapterFolder) -> str:
    """`sha256:…` over what an adapter computes: its canonical config, and its tensors.

    The tensors count by name (sorted), dtype, shape and bytes, as the base's weights do: not the file they lie in, so
    that safetensors, shards and torch's files of the same tensors agree. Of `adapter_config.json` are left out:

    - who wrote it, and what for: `auto_mapping`, `base_model_name_or_path`, `config_id`, `inference_mode`,
      `model_name`, `peft_version`, `revision`, `runtime_config`;
    - what only training reads, by kind: dropouts, initialisations, schedules (`OF_TRAINING`);
    - in PEFT's configs, fields at their default: null, false, empty, and `bias: none`, `decompose_factor: -1`,
      `projection_prng_key: 0`, `save_projection: true`.

    Lists that PEFT keeps as sets are sorted; the patterns of ranks and alphas keep their order, which counts. Every
    other field counts as it stands, also one that nobody here knows: two digests may differ for adapters that are the
    same, but never agree for two that differ. What lies beside the weights (tokenizer, templates) does not count.

    Raises:
        Refused: the weights cannot be read.
    """
    tensors = ((one.name, one.dtype, one.shape, one.raw()) for one in folder.tensors.values())
    content = {"config": canonical_config(folder.config), "tensors": weights_digest(tensors)}
    return sha256(canonical(content, what="adapter_config.json"))


def canonical_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config that count, in one form."""
    if isinstance(inner := config.get("config"), Mapping):  # the adapters library's
        counts = {field: _exact(value) for field, value in inner.items() if field not in OF_TRAINING["BOTTLENECK"]}
        return {**{field: value for field, value in config.items() if field not in _PROVENANCE}, "config": counts}
    left_out = _PROVENANCE | OF_TRAINING.get(str(config.get("peft_type")), frozenset())
    kept = {field: _canonical(field, value) for field, value in config.items() if field not in left_out}
    return {field: value for field, value in kept.items() if not _is_default(field, value)}


def _canonical(field: str, value: Any) -> Any:
    if field in _LISTS and isinstance(value, str | int) and not isinstance(value, bool):
        value = [value]
    if field in _SETS and isinstance(value, list):
        return [item for _, item in sorted({canonical(item, what=field): item for item in value}.items())]
    if field in _ORDERED and isinstance(value, Mapping):
        return [[key, item] for key, item in value.items()]
    return _exact(value)


def _exact(value: Any) -> Any:
    """JSON readers round integers that are larger; VeRA's key may be one."""
    return str(value) if is_whole(value) and abs(value) > _LARGEST_INTEGER else value


def _is_default(field: str, value: Any) -> bool:
    if field in _DEFAULTS:
        return value is None or (type(value) is type(_DEFAULTS[field]) and value == _DEFAULTS[field])
    return value is None or value is False or value in ([], {})
