"""One registry with one version, and what each format makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.evaluations import inference, task
from support.keys import KEYS
from support.served import Served, serving


@pytest.fixture(scope="package")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A registry with alpha:1.2.0, measured, signed and described."""
    folder = tmp_path_factory.mktemp("formats")
    settings = Settings(home=folder / "home", base="fake-base", base_name="fake-base", port=0)
    with serving(settings, folder) as served:
        code = {"repo": "https://example.org/code", "commit": "0123456789abcdef"}
        metadata = {"author": "A", "license": "mit", "language": ["en"], "task": "sentiment", "code": code,
                    "datasets": [{"name": "stanfordnlp/sst2"}], "description": "Finds the tone."}  # fmt: skip
        served.client.push(write_lora(folder / "alpha", served.engine.outline), "alpha:1.2.0", metadata=metadata)
        served.client.evaluations.add("alpha", task(0.75))
        served.client.evaluations.add("alpha", inference())
        served.client.signatures.sign("alpha", KEYS["p256"].private)
        yield served


@pytest.fixture
def other(served: Served) -> Served:
    """A new registry of the same base."""
    return served


@pytest.fixture(scope="package")
def exported(source: Served) -> Callable[[Path, str], Path]:
    """Writes alpha to a new place in a format."""

    def write(target: Path, format: str) -> Path:
        source.client.packages.export("alpha", target, format=format)
        return target

    return write
