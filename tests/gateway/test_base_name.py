"""Base and adapters share one namespace: neither may take the other's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graftwork.errors import Conflict
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, fake_outline
from support.served import Served


def test_an_adapter_cannot_take_the_bases_name(served: Served) -> None:
    with pytest.raises(Conflict, match="base model"):
        served.push(served.engine.outline.base)


def test_a_base_cannot_take_an_adapters_name(served: Served, settings: Settings, tmp_path: Path) -> None:
    served.push("taken")
    outline = replace(fake_outline(), base="taken")
    with pytest.raises(Conflict, match="--base-name"):
        build_app(settings, engine=FakeEngine(outline=outline), outline_of=lambda: outline)


def test_a_version_of_another_base_is_not_served(served: Served, settings: Settings) -> None:
    served.push("mine")
    served.engine.outline = replace(served.engine.outline, weights_digest="sha256:" + "7" * 64)
    answer = served.chat(model="mine")
    assert answer.status_code == 422
    assert "was pushed for the base" in answer.json()["error"]["message"]
    assert served.chat(model="").status_code == 200
