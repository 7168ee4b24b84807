"""Kernel tests run on one thread, which is quick on busy machines too; those about threads say how many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from graftwork.kernels import parallel


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Iterator[None]:
    """Three threads, and no launch too small for them."""
    monkeypatch.setattr(parallel, "PARALLEL_BYTES", 0)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(1)
