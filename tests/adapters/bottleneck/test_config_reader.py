"""Every field of the `adapters` library's config is honoured, harmless, or refused by its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.adapters.bottleneck.config import NON_LINEARITIES, BottleneckConfig, Sums
from graftwork.adapters.bottleneck.config_reader import read_bottleneck_config
from graftwork.adapters.bottleneck.layer import NON_LINEARITIES as FUNCTIONS
from support.bottleneck import GOLDEN
from support.scale import times


def config_of(golden: str = "double_seq_bn", **changes: Any) -> dict[str, Any]:
    """A golden's adapter_config.json; `changes` are of its inner config."""
    whole: dict[str, Any] = json.loads((GOLDEN / golden / "adapter_config.json").read_text())
    return whole | {"config": whole["config"] | changes}


def read(config: dict[str, Any]) -> BottleneckConfig:
    made, problems = read_bottleneck_config(config)
    assert made is not None, problems
    return made


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mh_adapter": None}, "mh_adapter: None"),
        ({"output_adapter": 1}, "output_adapter: 1"),
        ({"reduction_factor": 0}, "reduction_factor: 0"),
        ({"reduction_factor": -2}, "reduction_factor: -2"),
        ({"reduction_factor": 1e-9}, "reduction_factor"),
        ({"reduction_factor": float("nan")}, "reduction_factor"),
        ({"reduction_factor": 10**400}, "reduction_factor: a huge number"),
        ({"reduction_factor": "16"}, "reduction_factor"),
        ({"reduction_factor": {}}, "reduction_factor"),
        ({"reduction_factor": {"1": "8"}}, "reduction_factor"),
        ({"non_linearity": "prelu"}, "non_linearity: 'prelu'"),
        ({"non_linearity": "xielu"}, "non_linearity: 'xielu'"),
        ({"non_linearity": None}, "non_linearity"),
        ({"scaling": 4}, "scaling: 4"),
        ({"scaling": True}, "scaling: True"),
        ({"scaling": float("inf")}, "scaling: inf"),
        ({"scaling": "mystery"}, "scaling"),
        ({"use_gating": True}, "use_gating"),
        ({"residual_before_ln": "post_add"}, "post_add"),
        ({"residual_before_ln": 0}, "residual_before_ln"),
        ({"leave_out": None}, "leave_out"),
        ({"leave_out": ["0"]}, "leave_out"),
        ({"inv_adapter": "glow", "inv_adapter_reduction_factor": 2}, "inv_adapter: 'glow'"),
        ({"inv_adapter": "nice"}, "inv_adapter_reduction_factor"),
        ({"phm_layer": 1}, "phm_layer"),
        ({"phm_layer": True, "phm_dim": 0}, "phm_dim"),
        ({"phm_layer": True, "phm_rank": "1"}, "phm_rank"),
        ({"phm_layer": True, "shared_W_phm": True, "factorized_phm_W": False}, "shared_W_phm"),
        ({"phm_layer": True, "shared_W_phm": True, "reduction_factor": {"default": 8}}, "shared_W_phm"),
        ({"phm_layer": True, "reduction_factor": 0.5}, "phm_layer"),
        ({"architecture": "lora"}, "architecture: 'lora'"),
        ({"architecture": "union", "configs": []}, "architecture: 'union'"),
        ({"delta_gain": 3.0}, "delta_gain"),
        ({"invertible_adapter": {"block_type": "nice"}}, "invertible_adapter"),
    ],
)
def test_a_field_that_cannot_be_honoured_is_refused_by_name(changes: dict[str, Any], words: str) -> None:
    made, problems = read_bottleneck_config(config_of(**changes))
    assert made is None and words in " ".join(problems)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"config": "pfeiffer"}, "config: 'pfeiffer'"),
        ({"name": ""}, "name: ''"),
        ({"name": "a.b"}, "name: 'a.b'"),
        ({"model_type": "bert"}, "model_type: 'bert'"),
        ({"model_type": None}, "model_type: None"),
    ],
)
def test_so_is_one_outside_the_inner_config(changes: dict[str, Any], words: str) -> None:
    made, problems = read_bottleneck_config(config_of() | changes)
    assert made is None and words in " ".join(problems)


def test_an_inverse_before_the_head_is_refused() -> None:
    made, problems = read_bottleneck_config(config_of("seq_bn_inv") | {"model_class": "LlamaAdapterModel"})
    assert made is None and "LlamaAdapterModel" in problems[0]


@pytest.mark.parametrize(
    "changes",
    [{"dropout": 0.3}, {"init_weights": "mam_adapter"}, {"cross_adapter": True}, {"note": "x"}, {"learn_phm": None}],
)
def test_training_fields_do_not_matter(changes: dict[str, Any]) -> None:
    read(config_of(**changes))


def test_what_is_missing_has_the_librarys_default() -> None:
    needed = {"mh_adapter": True, "output_adapter": False, "reduction_factor": 8, "non_linearity": "ReLU"}
    made = read({"name": "x", "model_type": "llama", "version": "adapters.1.0.0", "config": needed})
    assert made.non_linearity == "relu" and made.scaling == 1.0 and made.phm is None and not made.leave_out
    assert made.sums == Sums("output", None, True, 0)


def test_a_config_without_a_version_names_activations_as_its_time_did() -> None:
    config = config_of(non_linearity="gelu")
    assert read(config).non_linearity == "gelu"
    del config["version"]
    assert read(config).non_linearity == "gelu_new"


def test_width_is_the_librarys_whole_division() -> None:
    made = read(config_of("per_layer"))  # {"1": 32, "default": 12.5}
    assert [made.width(layer, 64) for layer in range(3)] == [5, 2, 5]
    assert read(config_of(reduction_factor=1000)).width(0, 64) == 1
    assert read(config_of(reduction_factor={"1": 4})).width(0, 64) is None


def test_every_non_linearity_has_a_function() -> None:
    assert set(FUNCTIONS) == NON_LINEARITIES


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=times(100, 3000), deadline=None)
@given(changes=st.dictionaries(st.sampled_from(sorted(config_of()["config"])) | st.text(max_size=5), _ANY, max_size=4))
def test_any_value_gives_a_config_or_problems_and_never_an_error(changes: dict[str, Any]) -> None:
    made, problems = read_bottleneck_config(config_of(**changes))
    assert (made is None) == bool(problems)
