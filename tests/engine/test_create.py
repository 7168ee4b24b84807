"""create_engine: what it finds out about the machine."""

from __future__ import annotations

import pytest
import torch

from graftwork.engine import create


def test_compute_threads_are_no_more_than_a_container_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(create, "usable_cores", lambda: 1)
    assert create.compute_threads() == 1
    monkeypatch.setattr(create, "usable_cores", lambda: 1000)
    assert create.compute_threads() == torch.get_num_threads()


def test_who_says_how_many_threads_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr(create, "usable_cores", lambda: 0)
    assert create.compute_threads() == torch.get_num_threads()
