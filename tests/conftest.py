"""What most tests start from: settings in a folder of their own, and a server on a fake engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from graftwork.kernels.vectors import has_pairs
from graftwork.settings import Settings
from support.served import Served, serving

if TYPE_CHECKING:
    from support.databases import NewHome

pytest_plugins = ["support.alone", "support.fixtures", "support.databases", "support.stores"]
#: How long an example takes says more of what else the machine does than of the example.
hypothesis_settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("here")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What only some processors can do is no test on others; a skip would say that something can be installed."""
    if not has_pairs():
        none = [item for item in items if item.get_closest_marker("pairs")]
        config.hook.pytest_deselected(items=none)
        items[:] = [item for item in items if item not in none]


def pytest_collection_finish() -> None:
    """What is imported by now stays: every engine collects garbage as it starts, and need not look at all of that."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def settings(tmp_path: Path, new_home: NewHome) -> Settings:
    """Settings whose home is new."""
    return Settings(home=new_home(tmp_path / "home"), base="fake-base", base_name="fake-base", port=0)


@pytest.fixture
def served(settings: Settings, tmp_path: Path) -> Iterator[Served]:
    """An app on a fake engine with an empty registry."""
    with serving(settings, tmp_path) as made:
        yield made
