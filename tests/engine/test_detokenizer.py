"""Pieces of text are whole characters, and together they are the tokenizer's own decoding."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from graftwork.engine.detokenizer import ByteDetokenizer, TokenTable, WindowDetokenizer

SAMPLES = ("hello", " world", "é", "日本", "🙂", "👩‍👩‍👧", "\n", "naïve ", "\u200d")


def added(text: str, *, special: bool) -> AddedToken:
    return AddedToken(text, special=special, normalized=False)


def alphabet() -> list[str]:
    """GPT-2's 256 stand-ins in the order of the bytes they stand for, as the library writes them."""
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    symbols: dict[int, str] = {}
    for code in range(0x800):
        symbols |= zip(chr(code).encode(), pre.pre_tokenize_str(chr(code))[0][0], strict=True)
    return [symbols.get(byte, chr(byte)) for byte in range(256)]  # the bytes of longer characters print


@cache
def byte_level() -> Tokenizer:
    """Ids 0 to 255 are the bytes; then special and plain added tokens."""
    tokenizer = Tokenizer(models.BPE(vocab={symbol: n for n, symbol in enumerate(alphabet())}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([added("<|end|>", special=True)])
    tokenizer.add_tokens([added("<日本>", special=False), added("plain added", special=False)])
    return tokenizer


@cache
def byte_fallback(strip: int) -> Tokenizer:
    """Ids 0 to 255 are the bytes; then words as SentencePiece writes them."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "▁the", "the", "▁日本", "🙂", "<s>", "<0xZZ>"]
    tokenizer = Tokenizer(models.BPE(vocab={token: n for n, token in enumerate(tokens)}, merges=[]))
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", strip, 0)] * (strip > 0))
    tokenizer.add_special_tokens([added("<s>", special=True)])
    return tokenizer


@cache
def metaspace() -> Tokenizer:
    tokens = ["▁", "▁the", "the", "▁日本", "s", "▁.", "<s>"]
    tokenizer = Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token="s"))
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([added("<s>", special=True)])
    return tokenizer


@cache
def word_piece() -> Tokenizer:
    tokens = ["the", "##se", ".", "do", "n't", "日", "[CLS]", "##"]
    tokenizer = Tokenizer(models.WordLevel({token: n for n, token in enumerate(tokens)}, unk_token="the"))
    tokenizer.decoder = decoders.WordPiece(cleanup=True)
    tokenizer.add_special_tokens([added("[CLS]", special=True)])
    return tokenizer


def id_of(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    assert found is not None
    return found


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    detokenizer = TokenTable(tokenizer).detokenizer()
    return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]


def check_equal(tokenizer: Tokenizer, ids: list[int]) -> None:
    assert "".join(pieces(tokenizer, ids)) == tokenizer.decode(ids, skip_special_tokens=True)


@given(st.lists(st.integers(0, 270)))
def test_byte_level_pieces_are_the_decoding_of_any_ids(ids: list[int]) -> None:
    check_equal(byte_level(), ids)


@given(st.binary(max_size=24))
def test_byte_level_pieces_are_the_decoding_of_any_bytes(data: bytes) -> None:
    check_equal(byte_level(), list(data))
    assert "".join(pieces(byte_level(), list(data))) == data.decode("utf-8", "replace")


@given(st.lists(st.one_of(st.sampled_from(SAMPLES), st.text(max_size=3))).map("".join))
def test_text_comes_back_in_whole_characters_each_as_soon_as_it_is_complete(text: str) -> None:
    tokenizer = byte_level()
    data = text.encode("utf-8", "ignore")
    detokenizer = TokenTable(tokenizer).detokenizer()
    for end, byte in enumerate(data, 1):
        piece = detokenizer.push(byte)
        assert data[:end].decode("utf-8", "ignore").endswith(piece)
        assert ("\ufffd" in piece) <= ("\ufffd" in text)
    assert detokenizer.flush() == ""


def test_cut_character_becomes_one_replacement_at_the_end() -> None:
    assert pieces(byte_level(), list("é".encode())[:1]) == ["", "\ufffd"]
    assert pieces(byte_level(), list("🙂".encode())[:3]) == ["", "", "", "\ufffd"]


def test_special_and_unknown_tokens_are_silent_even_inside_a_character() -> None:
    end = id_of(byte_level(), "<|end|>")
    first, second = "é".encode()
    assert pieces(byte_level(), [first, end, 99_999, second]) == ["", "", "", "é", ""]
    check_equal(byte_level(), [first, end, 99_999, second])


@pytest.mark.parametrize("strip", [0, 1, 2])
@given(st.lists(st.one_of(st.integers(256, 264), st.sampled_from(SAMPLES), st.sampled_from([" ", "  "]))))
def test_byte_fallback_pieces_are_the_decoding_where_bytes_are_valid(strip: int, parts: list[int | str]) -> None:
    ids: list[int] = []
    for part in parts:
        ids += part.encode() if isinstance(part, str) else [part]
    check_equal(byte_fallback(strip), ids)


def test_byte_fallback_keeps_valid_characters_beside_invalid_bytes() -> None:
    assert "".join(pieces(byte_fallback(0), [*"é".encode(), 0xFF, 257])) == "é\ufffd the"


@given(st.lists(st.integers(0, 7)))
def test_other_decoders_give_the_decoding_of_any_ids(ids: list[int]) -> None:
    check_equal(metaspace(), ids)
    check_equal(word_piece(), ids)


def test_window_holds_an_unfinished_character_but_not_for_ever() -> None:
    detokenizer = WindowDetokenizer(TokenTable(byte_level()))
    assert [detokenizer.push(byte) for byte in "🙂".encode()] == ["", "", "", "🙂"]
    assert "".join(detokenizer.push(0xFF) for _ in range(40)).count("\ufffd") >= 30
    detokenizer.flush()
    assert detokenizer.flush() == ""


def test_known_decoders_are_recognised_and_others_are_not_guessed() -> None:
    assert isinstance(TokenTable(byte_level()).detokenizer(), ByteDetokenizer)
    assert isinstance(TokenTable(byte_fallback(1)).detokenizer(), ByteDetokenizer)
    assert isinstance(TokenTable(metaspace()).detokenizer(), WindowDetokenizer)
    assert isinstance(TokenTable(Tokenizer(models.WordLevel({"a": 0}, "a"))).detokenizer(), WindowDetokenizer)


@given(st.binary(max_size=16))
def test_bytes_of_tokens_concatenate_to_the_text(data: bytes) -> None:
    for tokenizer in (byte_level(), byte_fallback(0)):
        table = TokenTable(tokenizer)
        assert b"".join(table.bytes_of(byte) for byte in data) == data


def test_bytes_of_added_special_and_unknown_tokens() -> None:
    table = TokenTable(byte_level())
    names = ("<|end|>", "<日本>", "plain added")
    assert [table.bytes_of(id_of(byte_level(), name)).decode() for name in names] == list(names)
    assert table.bytes_of(99_999) == b""
    assert TokenTable(byte_fallback(0)).bytes_of(id_of(byte_fallback(0), "<0xZZ>")) == b"<0xZZ>"
    assert TokenTable(metaspace()).bytes_of(3) == "日本".encode()


@pytest.mark.parametrize(("tokenizer", "space_the"), [(byte_fallback(1), 257), (metaspace(), 1)])
def test_an_answer_behind_a_text_keeps_its_first_space(tokenizer: Tokenizer, space_the: int) -> None:
    table = TokenTable(tokenizer)
    assert table.detokenizer().push(space_the) == "the"
    assert table.detokenizer(after=[space_the]).push(space_the) == " the"
