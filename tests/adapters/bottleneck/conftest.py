"""A bottleneck adapter in a folder of its own, to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.bottleneck import grow_golden
from support.fixtures import Tiny


@pytest.fixture
def grown(tiny: Tiny, tmp_path: Path) -> Callable[[str], Path]:
    """Writes a golden, grown to the tiny base."""
    return lambda name: grow_golden(name, Path(tiny.settings.base), tmp_path / name)
