"""BaseIdentity: equal for equal content, whoever saved it; another for every part that changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graftwork.errors import Refused
from graftwork.models.base_identity import identify_base
from support.fixtures import Tiny


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.base.folder, tmp_path / "base"))


def edit(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_where_it_came_from_and_who_saved_it_do_not_count(tiny: Tiny, folder: Path) -> None:
    before = identify_base(tiny.outline, folder)
    edit(folder / "config.json", transformers_version="9", _name_or_path="elsewhere")
    moved = identify_base(replace(tiny.outline, source="elsewhere", base="other", revision="main"), folder)
    assert (moved.digest, moved.outline_digest) == (before.digest, before.outline_digest)
    assert (moved.source, moved.revision) == ("elsewhere", "main")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("config", lambda folder: edit(folder / "config.json", rope_theta=1.0)),
        ("tokenizer", lambda folder: edit(folder / "tokenizer_config.json", padding_side="left")),
        ("template", lambda folder: (folder / "chat_template.jinja").write_text("{{ messages }}")),
    ],
)
def test_each_part_has_a_digest_of_its_own(
    tiny: Tiny, folder: Path, part: str, change: Callable[[Path], object]
) -> None:
    before = identify_base(tiny.outline, folder)
    change(folder)
    after = identify_base(tiny.outline, folder)
    parts = ("weights", "config", "tokenizer", "template")
    changed = {one for one in parts if getattr(after, f"{one}_digest") != getattr(before, f"{one}_digest")}
    assert (changed, after.digest == before.digest) == ({part}, False)
    assert None not in [getattr(before, f"{one}_digest") for one in parts]


def test_a_template_inside_the_tokenizers_config_counts_as_a_file_of_its_own(tiny: Tiny, folder: Path) -> None:
    template = (folder / "chat_template.jinja").read_text()
    before = identify_base(tiny.outline, folder)
    (folder / "chat_template.jinja").unlink()
    assert identify_base(tiny.outline, folder).template_digest is None
    edit(folder / "tokenizer_config.json", chat_template=template)
    assert identify_base(tiny.outline, folder).template_digest == before.template_digest


def test_a_damaged_config_is_refused_by_its_name(tiny: Tiny, folder: Path) -> None:
    (folder / "config.json").write_text("[]")
    with pytest.raises(Refused, match=r"config\.json"):
        identify_base(tiny.outline, folder)
