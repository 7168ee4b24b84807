"""Every benchmark script, made short, runs on the tiny base and gives the figures that it is read for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

import adapter_tax
import batching
import cold_start
import deterministic
import fairness
import floor
import footprint
import gateway
import kinds
import many_adapters
import prefix_cache
import registry_scale
import serving
from benchmarks.conftest import Run
from graftwork.models.base import weight_files
from support.fixtures import Tiny

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
SHORT = ("--rounds", "1", "--prompt-tokens", "8", "--output-tokens", "12")


def test_floor_sets_each_number_of_rows_beside_its_floor(run: Run) -> None:
    figures = run(floor, *SHORT, "--rows", "2", "1")
    assert list(figures["rows"]) == ["1", "2"]
    assert figures["base_step_ms"] == figures["rows"]["2"]["base_step_ms"] > 0
    best = run(floor, *SHORT, "--rows", "2", "--best")
    assert best["base_step_over_floor"] == pytest.approx(best["base_step_ms"] / best["floor_a_ms"], rel=0.05)
    for one in figures["rows"].values():
        assert one["floor_a_ms"] == pytest.approx(one["matmuls_ms"] + one["keys_values_ms"], abs=0.002)
        assert one["base_step_over_floor"] == pytest.approx(one["base_step_ms"] / one["floor_a_ms"], rel=0.05)
        both = one["floor_a_ms"] + one["floor_b_ms"]
        assert one["mixed_step_over_floor"] == pytest.approx(one["mixed_step_ms"] / both, rel=0.05)


def test_adapter_tax_finds_no_launch_for_rows_of_the_base(run: Run) -> None:
    figures = run(adapter_tax, *SHORT, "--concurrency", "2", "--adapters", "2")
    assert figures["base_only_launches"] == 0
    assert min(figures["c2"], figures["c1"], figures["base_only"]) > 0
    assert all(load["errors"] == 0 for load in figures["loads"].values())


def test_many_adapters_come_and_go(run: Run) -> None:
    few = ("--registered", "12", "--resident", "2", "--memory-for", "4")
    figures = run(many_adapters, *SHORT, *few, "--concurrency", "4", "--requests", "24")
    assert figures["adapters_resident"] <= 4
    assert figures["loads"] > 0
    assert figures["hit_rate"] == pytest.approx(1 - figures["loads"] / 24, abs=0.001)
    assert figures["many"]["errors"] == figures["resident"]["errors"] == 0


def test_a_cached_prefix_is_found_and_traffic_without_one_is_set_beside_no_cache(run: Run) -> None:
    figures = run(prefix_cache, *SHORT, "--prefix-tokens", "128", "--concurrency", "2")
    assert figures["hit_tokens"] == 128 and figures["errors"] == 0
    assert min(figures["hit_over_miss_ttft"], figures["unshared_over_off"]) > 0


def test_cold_start_sets_cold_beside_warm_and_loads_beside_none(run: Run) -> None:
    long = ("--output-tokens", "200")  # than a load takes
    figures = run(cold_start, *SHORT, *long, "--streams", "2", "--adapters", "2", "--loads-per-s", "100")
    assert figures["cold_over_warm_ttft"] > 0
    for one in (figures, figures["from_files"]):
        assert one["loads"] > 0 and one["errors"] == 0
        assert one["inter_token_p95_while_loading"] > 0 and one["inter_token_p99_while_loading"] > 0


def test_fairness_sets_a_light_tenant_beside_a_flood(run: Run) -> None:
    short = ("--rows", "2", "--requests", "2", "--flood-prompt-tokens", "8", "--flood-output-tokens", "60")
    figures = run(fairness, *SHORT, *short)
    assert figures["light_over_free_row"] > 0 and figures["preemptions"] > 0
    assert figures["starvation_bound_held"] and figures["starvation"]["longest_wait_s"] > 0


def test_footprint_counts_at_least_the_adapters_own_bytes(tiny: Tiny) -> None:
    figures = footprint.measure(tiny.settings.base, Namespace(counts=[3, 1], rank=8, cache_bytes=1 << 24))
    own = figures["own_bytes_of_one"]
    assert own == 4 * 4 * 8 * (2 * (64 + 64) + 2 * (64 + 32)), "layers, itemsize, rank, q and o, k and v"
    for count, found in figures["adapters"].items():
        assert found["counted_bytes"] >= int(count) * own
    assert figures["overhead_over_own_bytes"] >= 0
    assert list(figures["adapters"]) == ["1", "3"]


def test_footprint_counts_a_base_once(tiny: Tiny) -> None:
    loaded = footprint.load_alone(tiny.settings.base)
    weights = sum(file.stat().st_size for file in weight_files(tiny.base.folder))
    assert loaded.counted == pytest.approx(weights, rel=0.05), "this base's head is not tied"


def test_footprint_measures_in_a_process_of_its_own() -> None:
    assert footprint.in_fresh_process(os.getpid) != os.getpid()


def test_kinds_are_set_beside_the_base(run: Run) -> None:
    figures = run(kinds, "--rounds", "1", "--prompt-tokens", "4", "--output-tokens", "2", "--rows", "2")
    assert figures["time_over_base"].keys() == {"base", "mixed", *kinds.KINDS}
    assert figures["time_over_base"]["base"] == 1


def test_batching_shows_a_curve(run: Run) -> None:
    figures = run(batching, *SHORT, "--concurrency", "1", "4", "--adapters", "0")
    assert list(figures["curve"]) == ["1", "4"]
    assert figures["ratio"] > 0
    assert all(point["errors"] == 0 and point["inter_token_ms"]["p99"] > 0 for point in figures["curve"].values())


def test_deterministic_sets_the_mode_beside_none(run: Run) -> None:
    figures = run(deterministic, *SHORT, "--concurrency", "4", "--adapters", "2")
    assert figures["bit_equal"] is True
    assert figures["ratio"] > 0
    assert figures["deterministic"]["errors"] == figures["normal"]["errors"] == 0


@pytest.mark.e2e
def test_serving_sets_http_beside_the_engine(run: Run) -> None:
    figures = run(serving, *SHORT, "--concurrency", "2", "--adapters", "2")
    assert figures["errors"] == figures["base_only"]["errors"] == figures["in_process"]["errors"] == 0
    assert min(figures[key] for key in ("http_over_engine", "step_over_floor", "ratio_adapters_to_base")) > 0


def test_a_script_runs_by_its_path_and_prints_a_table(tiny: Tiny, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPTS / "batching.py"), "--base", tiny.settings.base, *SHORT]
    command += ["--concurrency", "1", "2", "--adapters", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.startswith("base ")
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(done.stdout)


def test_registry_is_measured_at_each_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["registry", "--json", "--counts", "10", "--databases", "sqlite"])
    registry_scale.main()
    figures = json.loads(capsys.readouterr().out)["sqlite"]
    assert figures["resolve_p50_ms"] > 0 and figures["search_p50_ms"] > 0
    assert figures["versions"]["10"]["snapshot_after_push_ms"] > 0


def test_the_gateway_is_set_beside_the_floor_and_rolled_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", os.environ.get("OMP_WAIT_POLICY", "passive"))
    few = ["--tenants", "2", "--routes", "4", "--rounds", "1", "--requests", "100", "--clients", "2", "--trials", "2"]
    monkeypatch.setattr(sys, "argv", ["gateway", "--json", *few])
    gateway.main()
    figures = json.loads(capsys.readouterr().out)
    assert figures["added_p50_ms"] > 0 and figures["one_route_of_1000_rules"]["added_p50_ms"] > 0
    assert 0 < figures["requests_per_s_over_floor"] < 1
    assert {kind: one["processes"] for kind, one in figures["rollbacks"].items()} == {"sqlite": 1, "postgresql": 2}
    assert figures["rollback_ms_p95"] >= max(one["p50_ms"] for one in figures["rollbacks"].values()) > 0
