"""Any config of any kind gives an account, never an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graftwork.adapters.account import account_folder
from support.fixtures import Tiny
from support.scale import times
from support.tiny import save_peft

KINDS: dict[str, dict[str, Any]] = {
    "IA3Config": {"target_modules": ["q_proj", "down_proj"], "feedforward_modules": ["down_proj"]},
    "LoHaConfig": {"r": 2, "target_modules": ["q_proj"], "rank_pattern": {"layers.0.self_attn.q_proj": 3}},
    "LoKrConfig": {"r": 2, "target_modules": ["q_proj"], "alpha_pattern": {"layers.0.self_attn.q_proj": 3}},
    "AdaLoraConfig": {"init_r": 2, "target_r": 1, "target_modules": ["q_proj"], "total_step": 10},
    "VeraConfig": {"r": 4, "target_modules": ["q_proj"]},
    "PrefixTuningConfig": {"num_virtual_tokens": 2},
    "PromptTuningConfig": {"num_virtual_tokens": 2},
    "PromptEncoderConfig": {"num_virtual_tokens": 2},
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("q_proj"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_peft(request.param, KINDS[request.param], tiny.base.folder, tmp_path_factory.mktemp("any") / "one")


@settings(max_examples=times(40, 1000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_config_gives_an_account_and_never_an_error(folder: Path, tiny: Tiny, data: st.DataObject) -> None:
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(config)), VALUES, max_size=3))
    try:
        file.write_text(json.dumps(config | changes))
        made = account_folder(folder, tiny.outline, max_rank=64)
        assert made.ok == (not made.problems)
    finally:
        file.write_text(json.dumps(config))
