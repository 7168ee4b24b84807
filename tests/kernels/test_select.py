"""The choice of kernels, their threads and their compiling."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from graftwork.kernels.select import KERNELS, kernels_for


def test_the_reference_can_be_asked_for() -> None:
    assert kernels_for("cpu").name == "cpu"
    assert kernels_for("reference").name == "reference"


def test_an_unknown_device_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="abacus"):
        kernels_for("abacus")


def test_each_set_counts_its_own_launches() -> None:
    first, second = kernels_for("cpu"), kernels_for("cpu")
    first.launches += 1
    assert second.launches == 0


@pytest.mark.parametrize("name", KERNELS)
def test_warming_twice_is_fine(name: str) -> None:
    kernels = kernels_for(name)
    kernels.warm(torch.float32)
    kernels.warm(torch.float32)


def test_threads_are_torchs_in_every_thread(three_threads: None) -> None:
    kernels_for("cpu").set_threads(2)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2
    assert torch.get_num_threads() == 2
