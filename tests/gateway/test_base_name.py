"""Base and adapters share one namespace: neither may take the other's name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from graftwork.errors import Conflict, InvalidRequest
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, fake_outline
from support.served import Served, serving


def test_an_adapter_cannot_take_the_bases_name(served: Served) -> None:
    with pytest.raises(Conflict, match="base model"):
        served.push(served.engine.outline.base)


def test_a_base_cannot_take_an_adapters_name(served: Served, settings: Settings, tmp_path: Path) -> None:
    served.push("taken")
    outline = replace(fake_outline(), base="taken")
    with pytest.raises(Conflict, match="--base-name"):
        build_app(settings, engine=FakeEngine(outline=outline), outline_of=lambda: outline)


@pytest.mark.parametrize("name", ["Upper", "a b", "", "latest", "v2", "default"])
def test_a_base_has_a_name_that_requests_can_use(settings: Settings, tmp_path: Path, name: str) -> None:
    nowhere = tmp_path / "nowhere"
    with pytest.raises(InvalidRequest, match="base name"):
        build_app(settings.model_copy(update={"base_name": name, "home": nowhere}))
    assert not nowhere.exists()


def test_a_pinned_version_of_another_base_is_not_loaded(served: Served, settings: Settings) -> None:
    served.push("mine")
    engine = FakeEngine(outline=replace(fake_outline(), weights_digest="sha256:" + "7" * 64))
    with serving(settings.model_copy(update={"pin": ("mine",)}), served.folder, engine) as other:
        [reason] = other.client.ready()
    assert "was pushed for the base" in reason
    assert engine.loaded == []


def test_a_version_of_another_base_is_not_served(served: Served, settings: Settings) -> None:
    served.push("mine")
    served.engine.outline = replace(served.engine.outline, weights_digest="sha256:" + "7" * 64)
    answer = served.chat(model="mine")
    assert answer.status_code == 422
    assert "was pushed for the base" in answer.json()["error"]["message"]
    assert served.chat(model="").status_code == 200
