"""SiteTensors: which stored tensor is which part of which layer, and what a layer's norm says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.site_tensors import low_rank_finding, match_sites
from support.fixtures import Tiny

Q0 = "layers.0.self_attn.q_proj"


def folder_of(path: Path, *names: str) -> AdapterFolder:
    save_file({name: np.ones((2, 3), np.float32) for name in names}, path / "adapter_model.safetensors")
    return AdapterFolder(path, {})


@pytest.mark.parametrize("prefix", ["base_model.model.model.", "base_model.model.", "model.", "", "base_model." * 2])
@pytest.mark.parametrize("suffix", ["", ".default"])
def test_every_spelling_of_a_name_is_the_same_part(tiny: Tiny, tmp_path: Path, prefix: str, suffix: str) -> None:
    folder = folder_of(tmp_path, f"{prefix}{Q0}.vector{suffix}")
    sites, unmatched = match_sites(folder.tensors.values(), ("vector",), tiny.outline)
    assert not unmatched
    assert [(site.path, site.index, list(site.parts)) for site in sites] == [(f"model.{Q0}", 0, ["vector"])]


@pytest.mark.parametrize(
    "name", [f"{Q0}.matrix", f"{Q0}.vector.weight", "layers.9.mlp.up_proj.vector", "lm_head.vector"]
)
def test_what_is_no_part_of_a_layer_is_unmatched_with_the_reason(tiny: Tiny, tmp_path: Path, name: str) -> None:
    sites, unmatched = match_sites(folder_of(tmp_path, name).tensors.values(), ("vector",), tiny.outline)
    assert not sites and [line.name for line in unmatched] == [name]
    assert not unmatched[0].used and "linear layer" in unmatched[0].reason


def test_problems_name_what_is_missing_too_much_or_of_another_shape(tiny: Tiny, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, f"{Q0}.up", f"{Q0}.down")
    stored = match_sites(folder.tensors.values(), ("up", "down", "more"), tiny.outline)[0][0]
    assert not stored.problems({"up": (2, 3), "down": (2, 3)}, "the config")
    problems = " ".join(stored.problems({"up": (3, 2), "more": (2, 3)}, "the config"))
    assert f"{Q0}: more is missing" in problems and f"{Q0}.down: by the config" in problems
    assert f"{Q0}.up: shape [2, 3]" in problems and "[3, 2]" in problems


def test_a_norm_is_that_of_the_product() -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((4, 30), np.float32), random.standard_normal((20, 4), np.float32)
    found = low_rank_finding("it", a, b, 4, 0.5)
    assert found.norm == pytest.approx(float(np.linalg.norm(b @ a)), rel=1e-5)
    assert (found.rank, found.scale, found.problems) == (4, 0.5, ())


@pytest.mark.parametrize("value", [1e38, 1e25])
def test_a_product_beyond_float32_is_a_problem(value: float) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        found = low_rank_finding("it", np.full((2, 3), value, np.float32), np.full((3, 2), value, np.float32), 2)
    assert "overflows" in found.problems[0] and found.norm is None


def test_a_product_without_ranks_is_zero() -> None:
    assert low_rank_finding("it", np.zeros((0, 3), np.float32), np.zeros((3, 0), np.float32), 0).norm == 0
