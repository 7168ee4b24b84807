"""Prompts become token ids or a refusal that says why; tokens become text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from graftwork.engine.request import ChatPrompt
from graftwork.engine.text import Text
from graftwork.errors import InvalidRequest, Refused

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'robot' %}{{ raise_exception('no robots here') }}{% endif %}"
    "{{ '<|start|>' + message['role'] + ':' + message['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant:' }}{% endif %}"
)


def make_folder(folder: Path, *, template: str | None = TEMPLATE, bos: bool = False, **tokenizer_json: Any) -> Path:
    """A base without weights: a byte-level tokenizer of 256 symbols, `<|start|>` 256 and `<|end|>` 257."""
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={symbol: n for n, symbol in enumerate(symbols)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in ("<|start|>", "<|end|>")]
    )
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|start|> $A", pair="<|start|> $A $B", special_tokens=[("<|start|>", 256)]
        )
    folder.mkdir(exist_ok=True)
    write(folder / "tokenizer.json", json.loads(tokenizer.to_str()) | tokenizer_json)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|start|>", "eos_token": "<|end|>"}
    write(folder / "tokenizer_config.json", config | ({"chat_template": template} if template else {}))
    write(folder / "config.json", {"vocab_size": 260, "eos_token_id": 3})
    write(folder / "generation_config.json", {"eos_token_id": [4, 5]})
    return folder


def write(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return Text.open(make_folder(tmp_path_factory.mktemp("base") / "base"))


def chat(*contents: Any, role: str = "user") -> ChatPrompt:
    return ChatPrompt(tuple({"role": role, "content": content} for content in contents))


def read(text: Text, ids: tuple[int, ...]) -> str:
    """The text of ids with the names of special tokens."""
    return bytes(byte for token_id in ids for byte in text.token_bytes(token_id)).decode()


def test_text_prompt_is_encoded_without_special_tokens(text: Text) -> None:
    ids = text.encode("naïve 🙂")
    assert read(text, ids) == "naïve 🙂"
    assert not {256, 257} & set(ids)


def test_text_prompt_gets_the_start_token_that_the_tokenizer_adds_by_itself(tmp_path: Path) -> None:
    text = Text.open(make_folder(tmp_path / "base", bos=True))
    assert text.encode("hi")[0] == 256
    assert text.encode(chat("hi")).count(256) == 2  # the template's own and no more


def test_chat_goes_through_the_template_with_the_answer_opened(text: Text) -> None:
    ids = text.encode(chat("hi", "there"))
    assert read(text, ids) == "<|start|>user:hi<|end|><|start|>user:there<|end|><|start|>assistant:"
    assert ids[0] == 256
    assert ids.count(257) == 2


def test_text_parts_of_a_message_are_joined_by_line_ends(text: Text) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert text.encode(chat(parts)) == text.encode(chat("one\ntwo"))


def test_token_ids_are_taken_as_given(text: Text) -> None:
    assert text.encode((0, 259, 7)) == (0, 259, 7)


BAD: list[tuple[Any, str, str]] = [
    ("", "prompt", "empty"),
    ((), "prompt", "empty"),
    ((1, 260), "prompt", "260 is no token id"),
    ((-1,), "prompt", "0 to 259"),
    ((True,), "prompt", "True"),
    ((1.0,), "prompt", "1.0"),
    ("half \ud800 pair", "prompt", "surrogate"),
    (ChatPrompt(()), "messages", "empty"),
    (chat("half \udfff pair"), "messages", "surrogate"),
    (chat("hi", role="robot"), "messages", "no robots here"),
    (chat(None), "messages", "template"),
    (chat(7), "messages", "template"),
    (ChatPrompt(({"role": "user"},)), "messages", "content"),
    (ChatPrompt(("hi",)), "messages", r"messages\[0\]"),  # type: ignore[arg-type]
    (chat("hi", [{"type": "image_url", "image_url": {}}]), "messages", r"messages\[1\].*not text"),
]


@pytest.mark.parametrize(("prompt", "field", "words"), BAD)
def test_bad_prompt_is_refused_with_field_and_reason(text: Text, prompt: Any, field: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refusal:
        text.encode(prompt)
    assert refusal.value.field == field


def test_base_without_template_refuses_chat_and_says_what_to_do(tmp_path: Path) -> None:
    text = Text.open(make_folder(tmp_path / "base", template=None))
    with pytest.raises(InvalidRequest, match=r"no chat template.*completions"):
        text.encode(chat("hi"))


def test_template_that_gives_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no text"):
        Text.open(make_folder(tmp_path / "base", template="{{ '' }}")).encode(chat("hi"))


def test_truncation_and_padding_in_the_tokenizer_file_are_not_applied(tmp_path: Path) -> None:
    truncation = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    text = Text.open(make_folder(tmp_path / "base", truncation=truncation))
    assert len(text.encode("longer than two")) == 15


def test_stop_ids_are_those_of_the_generation_config_and_the_tokenizer(text: Text) -> None:
    assert text.stop_ids == {4, 5, 257}


def test_stop_id_of_the_config_counts_without_a_generation_config(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "base")
    (folder / "generation_config.json").unlink()
    assert Text.open(folder).stop_ids == {3, 257}


def test_vocabulary_size_is_given_or_from_the_config_or_the_tokenizer(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "base")
    assert Text.open(folder, vocab_size=300).vocab_size == 300
    write(folder / "config.json", {"text_config": {"vocab_size": 270}})
    assert Text.open(folder).vocab_size == 270
    (folder / "config.json").unlink()
    assert Text.open(folder).vocab_size == 258


@pytest.mark.parametrize("name", ["tokenizer.json", "generation_config.json"])
def test_damaged_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    folder = make_folder(tmp_path / "base")
    (folder / name).write_text("{", encoding="utf-8")
    with pytest.raises(Refused, match="cannot be read"):
        Text.open(folder)


def test_token_of_part_of_a_character_shows_as_replacement_and_keeps_its_byte(text: Text) -> None:
    first, second = text.encode("é")
    assert text.token_text(first) == "\ufffd"
    assert text.token_bytes(first) + text.token_bytes(second) == tuple("é".encode())
    assert text.token_text(257) == "<|end|>"
    assert text.token_text(259) == ""


def test_logprob_record_carries_text_and_bytes_of_token_and_alternatives(text: Text) -> None:
    (letter,) = text.encode("a")
    record = text.token_logprob(letter, -0.5, ((letter, -0.5), (257, -2.0)))
    assert (record.token, record.bytes, record.logprob) == ("a", (97,), -0.5)
    assert [(one.token, one.logprob) for one in record.top] == [("a", -0.5), ("<|end|>", -2.0)]
    assert record.top[1].bytes == tuple(b"<|end|>")


def test_each_answer_has_a_detokenizer_of_its_own(text: Text) -> None:
    first, second = text.encode("é")
    one, other = text.detokenizer(), text.detokenizer()
    assert (one.push(first), other.push(second), one.push(second)) == ("", "\ufffd", "é")


def test_an_echo_is_the_prompt_as_it_was_given_or_what_its_tokens_say(text: Text) -> None:
    assert text.echo("naïve <|end|>", text.encode("naïve <|end|>")) == "naïve <|end|>"
    ids = (*text.encode("hé"), 256)
    assert text.echo(ids, ids) == "hé<|start|>"
