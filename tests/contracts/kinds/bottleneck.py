"""Bottleneck adapters as the `adapters` library saved them for a base of the same width."""

from __future__ import annotations

from functools import partial

from contracts.kinds import KindCase
from support.bottleneck import BottleneckOracle, grow_golden


def _golden(golden: str, feature: str) -> KindCase:
    return KindCase(
        f"bottleneck_{golden}", "BOTTLENECK", feature, partial(grow_golden, golden), oracle=BottleneckOracle
    )


CASES = [
    _golden("seq_bn", "after the MLP (Pfeiffer, seq_bn)"),
    _golden("double_seq_bn", "after both blocks (Houlsby, double_seq_bn)"),
    _golden("par_bn", "beside a block (par_bn)"),
    _golden("scaled_par_bn", "learned scaling"),
    _golden("adapter_plus", "scaling per channel (AdapterPlus)"),
    _golden("ln", "layer norms of its own"),
    _golden("ln_within_sum", "every residual connection of BnConfig"),
    _golden("residual_dropped", "every residual connection of BnConfig"),
    _golden("per_layer", "reduction_factor per layer, leave_out"),
    _golden("leave_out", "reduction_factor per layer, leave_out"),
    _golden("act_quick_gelu", "non-linearities without weights"),
    _golden("compacter", "Compacter (phm_layer)"),
    _golden("phm_shared", "Compacter (phm_layer)"),
    _golden("head", "output head of a plain language model"),
    _golden("seq_bn_inv", "invertible adapter after the embedding (NICE)"),
]
