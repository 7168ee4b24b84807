"""IA3 as PEFT writes it."""

from __future__ import annotations

from functools import partial
from typing import Any

from contracts.kinds import KindCase
from support.tiny import save_peft

OUTPUTS, INPUTS = "scaled outputs", "scaled inputs (feedforward_modules)"
#: As in Qwen2: what an IA3 vector scales includes the base's bias.
BIASES = {"attention_bias": True, "mlp_bias": True}


def _ia3(name: str, feature: str, targets: Any, feedforward: Any, base: dict[str, Any] | None = None) -> KindCase:
    config = {"target_modules": targets, "feedforward_modules": feedforward}
    return KindCase(name, "IA3", feature, partial(save_peft, "IA3Config", config, std=0.5), base=base or {})


CASES = [
    _ia3("ia3-outputs", OUTPUTS, ["k_proj", "v_proj"], []),
    _ia3("ia3-outputs-with-bias", OUTPUTS, ["q_proj", "k_proj", "up_proj"], [], BIASES),
    _ia3("ia3-inputs", INPUTS, ["down_proj", "o_proj"], ["down_proj", "o_proj"]),
    _ia3("ia3-inputs-with-bias", INPUTS, ["k_proj", "down_proj"], ["down_proj"], BIASES),
    _ia3("ia3-every-layer", INPUTS, "all-linear", r".*(down|o)_proj"),
    _ia3("ia3-one-of-a-fused-group", INPUTS, ["k_proj", "gate_proj"], ["k_proj", "gate_proj"]),
]
