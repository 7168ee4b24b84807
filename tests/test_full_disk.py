"""A full disk: what has to be written is refused with the reason, what is served goes on, and all is well with room."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graftwork import Engine
from graftwork.artifacts.bundle import Manifest
from graftwork.errors import Unavailable
from support.edited import edited
from support.fixtures import Tiny
from support.waiting import eventually


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    """The system refuses to write more, as where the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_push_is_refused_and_serving_goes_on(tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = tiny.settings.model_dump() | {"home": tmp_path / "home", "cache_dir": tmp_path / "cache"}
    other = edited(tiny.adapter("a1"), tmp_path / "other", lambda old: {name: -value for name, value in old.items()})
    with Engine(**settings) as engine:
        engine.push(tiny.adapter("a1"), "one")
        engine.push(tiny.adapter("a2"), "two")
        for file in Manifest.of_folder(tiny.adapter("a3")).files:
            engine._store.put("local", file.digest, [(tiny.adapter("a3") / file.path).read_bytes()])
        want = engine.generate("hello", adapter="one", temperature=0, max_tokens=8)
        with no_file_grows_beyond(4096):
            with pytest.raises(Unavailable, match="artifact store cannot be written"):
                engine.push(other, "three")
            with pytest.raises(Unavailable, match=r"cannot be written|cannot be used now"):
                manifest = Manifest.of_folder(tiny.adapter("a3"))
                engine._pushes.push("local", "three", manifest, semver=None, metadata=None, actor="local")
            assert engine.generate("hello", adapter="one", temperature=0, max_tokens=8) == want
            cold = engine.generate("hello", adapter="two", temperature=0, max_tokens=8)
            told = re.compile("The serving form .* cannot be written, so it is made again at each load")
            eventually(lambda: any(map(told.match, caplog.messages)))  # it is kept once its rows run
        assert engine.push(tiny.adapter("a3"), "three").adapter == "three"
        assert engine.generate("hello", adapter="two", temperature=0, max_tokens=8) == cold
        engine._engine.check()
