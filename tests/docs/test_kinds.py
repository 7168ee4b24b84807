"""The pages about kinds: where each acts, which papers it follows, which files are read, and that quotes are true."""

from __future__ import annotations

import inspect
import json
import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from contracts.kinds import KindCase, all_cases
from docs.pages import ROOT, blocks_of, text_of
from docs.test_docs import generator
from graftwork.adapters.files.weight_files import WEIGHT_NAMES
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.kinds import ADAPTER_KINDS, all_kinds
from graftwork.adapters.serving_form import ServingForm
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.tiny import make_base

ADD_A_KIND = "docs/howto/add-an-adapter-kind.md"
#: Of a classification head there is no case: no text could be compared.
NO_CASE = {"score"}


class Weights:
    """The weights of a base, as transformers reads them."""

    def __init__(self, base: Path) -> None:
        self._tensors: dict[str, torch.Tensor] = AutoModelForCausalLM.from_pretrained(base).state_dict()

    def weight(self, path: str) -> torch.Tensor:
        return self._tensors[f"{path}.weight"]

    def bias(self, path: str) -> torch.Tensor | None:
        return self._tensors.get(f"{path}.bias")


@pytest.fixture(scope="module")
def form_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[KindCase], ServingForm]:
    """The serving form of a case on its own tiny base."""

    @cache
    def base_of(changes: str) -> Path:
        return make_base(tmp_path_factory.mktemp("base") / "base", **json.loads(changes))

    def made(case: KindCase) -> ServingForm:
        base = base_of(json.dumps(case.base, default=str))
        folder = tmp_path_factory.mktemp("adapter") / case.name
        case.make(base, folder)
        outline = prepare_base(Settings(home=base.parent / "home", base=str(base))).outline
        opened = AdapterFolder.open(folder)
        return all_kinds()[case.kind].serving_form(opened, outline, torch.float32, Weights(base))

    return made


def places_of(form: ServingForm) -> set[str]:
    linear = {"linear"} if form.slices or form.affines else set()
    return linear | {part.site.place for part in form.parts}


@pytest.mark.parametrize("key", list(ADAPTER_KINDS))
def test_a_kind_acts_where_the_page_says(key: str, form_of: Callable[[KindCase], ServingForm]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        seen = {place for case in all_cases() if case.kind == key for place in places_of(form_of(case))}
    assert seen == set(generator().PLACES[key]) - NO_CASE


def test_papers_are_those_that_the_code_of_the_kind_names() -> None:
    papers = generator().PAPERS
    assert list(papers) == list(ADAPTER_KINDS)
    for key, kind in all_kinds().items():
        folder = Path(inspect.getfile(sys.modules[type(kind).__module__])).parent
        code = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.py"))
        assert papers[key]
        assert [paper for paper in papers[key] if f"arxiv.org/abs/{paper}" not in code] == [], key


def test_weights_are_looked_for_in_the_order_of_the_page() -> None:
    listed = re.findall(r"^\d\. `([^`]+)`$", text_of("docs/howto/bring-an-adapter.md"), re.M)
    assert tuple(listed) == WEIGHT_NAMES


def test_code_that_the_page_quotes_is_the_code() -> None:
    quoted = [block for block in blocks_of(ADD_A_KIND) if block.language == "py"]
    assert quoted
    for block in quoted:
        (file,) = block.flags
        code = (ROOT / file).read_text(encoding="utf-8")
        for piece in block.text.split("\n…\n"):
            assert f"\n{piece.rstrip()}\n" in f"\n{code}", f"{block}: {file} has no such lines:\n{piece}"
