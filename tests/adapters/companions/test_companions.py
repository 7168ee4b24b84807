"""Companions: what a folder carries beside its weights is read exactly, or refused by the file and the field."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graftwork.adapters.account import account_folder
from graftwork.adapters.companions.companions import NO_COMPANIONS, FoundCompanions, read_companions
from graftwork.adapters.companions.tokenizer_outline import TokenizerOutline
from graftwork.adapters.outline import Outline
from support.fixtures import Tiny
from support.scale import times
from support.tiny import byte_tokenizer

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def tokenizer_json() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(byte_tokenizer().backend_tokenizer.to_str())
    return read


@pytest.fixture(scope="module")
def base() -> TokenizerOutline:
    return TokenizerOutline.of(byte_tokenizer().get_vocab(), [tokenizer_json()])


def write(folder: Path, **files: Any) -> Path:
    """Files by name, `__` for a dot; a text as it is, anything else as JSON."""
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def added(number: int, content: str, **flags: bool) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": number, "content": content, **plain, **flags}


def read(folder: Path, base: TokenizerOutline | None, vocab_size: int = 256) -> FoundCompanions:
    return read_companions(folder, base, vocab_size)


def test_most_adapters_carry_nothing(tmp_path: Path, base: TokenizerOutline) -> None:
    assert read(tmp_path, base) == FoundCompanions(NO_COMPANIONS, (), ())


def test_the_bases_own_tokenizer_saved_beside_an_adapter_adds_nothing(tmp_path: Path, base: TokenizerOutline) -> None:
    """As trainers do by default: everything is saved, nothing differs but the template's new place."""
    byte_tokenizer().save_pretrained(tmp_path)
    found = read(tmp_path, base)
    assert (found.problems, found.warnings, found.companions.added_tokens) == ((), (), ())
    assert found.companions.chat_template == byte_tokenizer().chat_template
    assert found.companions.files == ("chat_template.jinja", "tokenizer_config.json")


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({"chat_template__jinja": CHATML}, CHATML),
        ({"chat_template__jinja": CHATML, "tokenizer_config__json": {"chat_template": "other"}}, CHATML),
        ({"tokenizer_config__json": {"chat_template": CHATML}}, CHATML),
        (
            {
                "tokenizer_config__json": {
                    "chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": CHATML}]
                }
            },
            CHATML,
        ),
        ({"tokenizer_config__json": {"chat_template": ""}}, None),
        ({"tokenizer_config__json": {"chat_template": None}}, None),
        ({"chat_template__jinja": ""}, None),
    ],
)  # fmt: skip
def test_where_a_chat_template_may_be(tmp_path: Path, base: TokenizerOutline, files: Any, template: str | None) -> None:
    found = read(write(tmp_path, **files), base)
    assert found.companions.chat_template == template and not found.problems


def test_added_tokens_of_every_file_are_one_list(tmp_path: Path, base: TokenizerOutline) -> None:
    tokenizer = tokenizer_json()
    tokenizer["added_tokens"] += [added(256, "<a>", special=True), added(257, "<b>", lstrip=True)]
    config = {"added_tokens_decoder": {"256": added(256, "<a>", special=True), "258": added(258, "<c>")}}
    write(
        tmp_path, tokenizer__json=tokenizer, tokenizer_config__json=config, added_tokens__json={"<d>": 259, "<a>": 256}
    )
    found = read(tmp_path, base)
    assert [(token.id, token.content) for token in found.companions.added_tokens] == [
        (256, "<a>"), (257, "<b>"), (258, "<c>"), (259, "<d>"),
    ]  # fmt: skip
    assert [token.special for token in found.companions.added_tokens] == [True, False, False, False]
    assert found.companions.added_tokens[1].lstrip and not found.problems
    assert found.companions.files == ("added_tokens.json", "tokenizer.json", "tokenizer_config.json")


def swapped() -> dict[str, Any]:
    tokenizer = tokenizer_json()
    vocab = tokenizer["model"]["vocab"]
    vocab["a"], vocab["b"] = vocab["b"], vocab["a"]
    return tokenizer


def with_model(**changes: Any) -> dict[str, Any]:
    tokenizer = tokenizer_json()
    tokenizer["model"] |= changes
    return tokenizer


def with_vocab(**more: int) -> dict[str, Any]:
    return with_model(vocab=tokenizer_json()["model"]["vocab"] | more)


def decoder(number: object, **fields: Any) -> dict[str, Any]:
    return {"added_tokens_decoder": {str(number): added(0, "<x>") | fields}}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"tokenizer__json": swapped()}, ["tokenizer.json", "'b'", "'a'", "another tokenizer"]),
        ({"tokenizer__json": with_model(merges=["a b"])}, ["tokenizer.json", "merges"]),
        ({"tokenizer__json": with_vocab(house=256)}, ["tokenizer.json", "'house'"]),
        ({"tokenizer__json": "{"}, ["tokenizer.json", "JSON"]),
        ({"tokenizer__json": []}, ["tokenizer.json", "object"]),
        ({"tokenizer__json": {"added_tokens": [{"id": -1, "content": "x"}]}}, ["tokenizer.json", "no added token"]),
        ({"tokenizer_config__json": decoder(65)}, ["token 65", "'<x>'", "but the base's is"]),
        ({"tokenizer_config__json": decoder("x")}, ["tokenizer_config.json", "no added token"]),
        ({"tokenizer_config__json": decoder(256, content=7)}, ["no added token"]),
        ({"tokenizer_config__json": decoder(256, content="")}, ["0 characters"]),
        ({"tokenizer_config__json": decoder(256, content="a")}, ["token 256", "already"]),
        ({"tokenizer_config__json": decoder(256, lstrip="yes")}, ["flag"]),
        ({"tokenizer_config__json": decoder(256), "added_tokens__json": {"<y>": 256}}, ["added_tokens.json", "'<x>'"]),
        ({"added_tokens__json": {"<x>": 256.5}}, ["added_tokens.json", "no added token"]),
        ({"added_tokens__json": {f"<{n}>": 256 + n for n in range(20_000)}}, ["20000 tokens"]),
        ({"tokenizer_config__json": {"eos_token": "<nowhere>"}}, ["eos_token", "<nowhere>"]),
        ({"tokenizer_config__json": {"bos_token": "x" * 513}}, ["bos_token", "513 characters"]),
        ({"tokenizer_config__json": {"chat_template": 7}}, ["chat_template", "int"]),
        ({"tokenizer_config__json": {"chat_template": [{"name": "rag", "template": "x"}]}}, ["default"]),
        ({"chat_template__jinja": "{% for"}, ["chat_template.jinja", "line 1"]),
        ({"chat_template__jinja": "\n\n{{ a b }}"}, ["chat_template.jinja", "line 3"]),
        ({"chat_template__jinja": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"}, ["chat_template.jinja", "nested"]),
        ({"chat_template__jinja": "x" * 300_000}, ["chat_template.jinja", "262144"]),
        ({"generation_config__json": "["}, ["generation_config.json", "JSON"]),
        ({"generation_config__json": {"temperature": "hot"}}, ["generation_config.json", "temperature", "hot"]),
        ({"generation_config__json": {"temperature": float("nan")}}, ["temperature"]),
        ({"generation_config__json": {"temperature": True}}, ["temperature"]),
        ({"generation_config__json": {"temperature": -1}}, ["temperature"]),
        ({"generation_config__json": {"top_p": 1.5}}, ["top_p"]),
        ({"generation_config__json": {"top_k": 2.5}}, ["top_k"]),
        ({"generation_config__json": {"max_new_tokens": 0}}, ["max_new_tokens"]),
        ({"generation_config__json": {"repetition_penalty": 0}}, ["repetition_penalty"]),
        ({"generation_config__json": {"eos_token_id": "2"}}, ["eos_token_id"]),
        ({"generation_config__json": {"eos_token_id": [2, -1]}}, ["eos_token_id"]),
        ({"generation_config__json": {"eos_token_id": [2, 256]}}, ["eos_token_id 256", "256"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name(
    tmp_path: Path, base: TokenizerOutline, files: Any, words: list[str]
) -> None:
    problems = " ".join(read(write(tmp_path, **files), base).problems)
    assert all(word in problems for word in words), problems


def test_the_same_token_with_other_flags_is_a_contradiction(tmp_path: Path, base: TokenizerOutline) -> None:
    tokenizer = tokenizer_json()
    tokenizer["added_tokens"].append(added(256, "<x>", special=True))
    write(tmp_path, tokenizer__json=tokenizer, tokenizer_config__json=decoder(256))
    assert "other flags" in read(tmp_path, base).problems[0]


def test_another_way_of_splitting_text_is_said(tmp_path: Path, base: TokenizerOutline) -> None:
    found = read(write(tmp_path, tokenizer__json=tokenizer_json() | {"pre_tokenizer": None}), base)
    assert not found.problems and "pre_tokenizer" in found.warnings[0]


def test_merges_in_either_spelling_are_the_same(tmp_path: Path) -> None:
    old, new = with_model(merges=["a b", "ab c"]), with_model(merges=[["a", "b"], ["ab", "c"]])
    base = TokenizerOutline.of(byte_tokenizer().get_vocab(), [new])
    assert not read(write(tmp_path, tokenizer__json=old), base).problems


@pytest.mark.parametrize(
    ("config", "defaults", "stops"),
    [
        ({"temperature": 0.6, "top_p": 0.9, "do_sample": True}, {"temperature": 0.6, "top_p": 0.9}, ()),
        ({"do_sample": False, "temperature": 0.6}, {"temperature": 0.0}, ()),
        ({"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2, "max_new_tokens": 9},
         {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.2, "max_new_tokens": 9}, ()),
        ({"eos_token_id": 7}, {}, (7,)),
        ({"eos_token_id": [7, 9], "temperature": None}, {}, (7, 9)),
        ({"bos_token_id": 1, "transformers_version": "5.0"}, {}, ()),
    ],
)  # fmt: skip
def test_generation_defaults_and_stop_tokens(
    tmp_path: Path, base: TokenizerOutline, config: Any, defaults: Any, stops: Any
) -> None:
    found = read(write(tmp_path, generation_config__json=config), base)
    assert (found.companions.defaults.to_json(), found.companions.stop_ids) == (defaults, stops)
    assert not found.problems and not found.warnings


def test_generation_fields_without_effect_are_said(tmp_path: Path, base: TokenizerOutline) -> None:
    config = {"num_beams": 4, "typical_p": 1.0, "no_repeat_ngram_size": 0, "penalty_alpha": 0.6}
    (warning,) = read(write(tmp_path, generation_config__json=config), base).warnings
    assert "num_beams, penalty_alpha has no effect" in warning


def test_the_account_shows_what_was_found(tiny: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "a"))
    write(folder, chat_template__jinja=CHATML, generation_config__json={"temperature": 0.5, "eos_token_id": 7})
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert made.ok, made.problems
    assert made.to_json()["companions"] == {
        "files": ["chat_template.jinja", "generation_config.json"], "chat_template": True, "added_tokens": [],
        "stop_ids": [7], "stop_token": None, "defaults": {"temperature": 0.5},
    }  # fmt: skip


def test_an_added_token_without_a_row_in_the_embedding_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "a"))
    write(folder, added_tokens__json={"<x>": 256, "<y>": 259})
    (problem,) = account_folder(folder, tiny.outline, max_rank=64).problems
    assert "Token 259" in problem and "256 rows" in problem
    roomy = replace(tiny.outline, vocab_size=260)
    assert account_folder(folder, roomy, max_rank=64).ok


def test_an_outline_keeps_its_tokenizer(tiny: Tiny, tmp_path: Path) -> None:
    assert tiny.outline.tokenizer is not None and len(tiny.outline.tokenizer.tokens) == 256
    tiny.outline.save(tmp_path)
    assert Outline.load(tmp_path) == tiny.outline


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.floats() | st.sampled_from(["", "a", "<x>", "default", "{{"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["256", "0", "id", "content", "special", "name", "template", "vocab", "merges", "<x>"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
FIELDS = [
    "chat_template", "added_tokens_decoder", "eos_token", "bos_token", "added_tokens", "model", "normalizer",
    "temperature", "top_k", "eos_token_id", "do_sample", "<x>", "a",
]  # fmt: skip
FILES = ["tokenizer.json", "tokenizer_config.json", "added_tokens.json", "generation_config.json"]


@settings(max_examples=times(200, 5000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(
        st.sampled_from(FILES), ANY_JSON | st.dictionaries(st.sampled_from(FIELDS), ANY_JSON, max_size=5), max_size=4
    ),
    known=st.booleans(),
)
@example(files={"tokenizer_config.json": {"chat_template": [{"name": [], "template": "x"}]}}, known=False)
def test_any_files_give_companions_or_problems_and_never_an_error(
    tmp_path: Path, base: TokenizerOutline, files: dict[str, Any], known: bool
) -> None:
    for name in FILES:
        (tmp_path / name).unlink(missing_ok=True)
        if name in files:
            (tmp_path / name).write_text(json.dumps(files[name]))
    found = read(tmp_path, base if known else None)
    json.dumps(found.companions.to_json())
