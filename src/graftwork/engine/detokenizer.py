"""Detokenizer: turns token ids into text one by one, without ever showing part of a character."""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from tokenizers import Tokenizer

_REPLACEMENT = "\ufffd"
#: Tokens a window may hold back; an unfinished character is never longer.
_LONGEST_HOLD = 8


class Detokenizer(Protocol):
    """The text of one answer, as it grows."""

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty for special and unknown tokens and inside a character."""

    def flush(self) -> str:
        """What is still held, at the end of the answer: an unfinished character becomes U+FFFD."""


class TokenTable:
    """What each token of one tokenizer is in bytes.

    Known decoders are byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) and SentencePiece with byte fallback
    (Llama 2, Mistral, Gemma): there the bytes of an answer's tokens, concatenated, are its text. For others
    `exact` is False and a token's bytes are those of its text alone.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._steps = _decoder_steps(tokenizer)
        self._kind = _kind(self._steps)
        self._special = {
            token_id: token.content for token_id, token in tokenizer.get_added_tokens_decoder().items() if token.special
        }
        self._bytes: dict[int, bytes] = {}
        self._skips: dict[int, bool] = {}

    @cached_property
    def digest(self) -> str:
        """Of the tokenizer's content."""
        return hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()

    @property
    def exact(self) -> bool:
        return self._kind is not None

    @property
    def stripped(self) -> int:
        """How many leading spaces of an answer the decoder drops."""
        return int(self._steps[-1]["start"]) if self._steps and self._steps[-1]["type"] == "Strip" else 0

    def skips(self, token_id: int) -> bool:
        """Whether the token is no part of the text: special or unknown (embeddings may have spare rows)."""
        known = self._skips.get(token_id)
        if known is None:
            known = token_id in self._special or self.tokenizer.id_to_token(token_id) is None
            self._skips[token_id] = known
        return known

    def bytes_of(self, token_id: int) -> bytes:
        """UTF-8 bytes, perhaps of part of a character; a special token's name; nothing for an unknown one."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._find(token_id)
        return known

    def _find(self, token_id: int) -> bytes:
        if token_id in self._special:
            return self._special[token_id].encode()
        token = self.tokenizer.id_to_token(token_id)
        if token is None:
            return b""
        if self._kind == "byte level":
            return _byte_level(token)
        if self._kind == "byte fallback":
            return _byte_fallback(token)
        return self.tokenizer.decode([token_id]).encode()

    def detokenizer(self, after: Sequence[int] = ()) -> Detokenizer:
        """A fresh one, for one answer; `after` are the tokens that are shown before it."""
        return ByteDetokenizer(self, after) if self.exact else WindowDetokenizer(self, after)


class ByteDetokenizer:
    """Decodes the bytes of the tokens: constant work per token.

    Equal to the tokenizer's own decoding of all ids. One exception: in a run of byte-fallback tokens that is
    not valid UTF-8 as a whole, valid characters stay, where the tokenizer replaces every byte of the run.
    """

    def __init__(self, table: TokenTable, after: Sequence[int] = ()) -> None:
        self._table = table
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._to_strip = 0 if after else table.stripped

    def push(self, token_id: int) -> str:
        if self._table.skips(token_id):
            return ""
        return self._strip(self._decoder.decode(self._table.bytes_of(token_id)))

    def flush(self) -> str:
        return self._strip(self._decoder.decode(b"", final=True))

    def _strip(self, text: str) -> str:
        while self._to_strip and text:
            self._to_strip = self._to_strip - 1 if text[0] == " " else 0
            text = text.removeprefix(" ") if self._to_strip or text[0] == " " else text
        return text


class WindowDetokenizer:
    """Decodes the newest tokens behind those of the last piece, whose text is cut off: for other decoders."""

    def __init__(self, table: TokenTable, after: Sequence[int] = ()) -> None:
        self._table = table
        self._ids = [one for one in after if not table.skips(one)][-_LONGEST_HOLD:]  # |<- shown already ->|<- held ->|
        self._num_shown = len(self._ids)

    def push(self, token_id: int) -> str:
        if self._table.skips(token_id):
            return ""
        self._ids.append(token_id)
        piece = self._held()
        if piece.endswith(_REPLACEMENT) and len(self._ids) - self._num_shown < _LONGEST_HOLD:
            return ""
        self._ids = self._ids[self._num_shown :]
        self._num_shown = len(self._ids)
        return piece

    def flush(self) -> str:
        piece = self._held()
        self._num_shown = len(self._ids)
        return piece

    def _held(self) -> str:
        decode = self._table.tokenizer.decode
        return str(decode(self._ids))[len(decode(self._ids[: self._num_shown])) :]


def _decoder_steps(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    if tokenizer.decoder is None:
        return []
    state: dict[str, Any] = json.loads(tokenizer.decoder.__getstate__())
    return list(state["decoders"]) if state["type"] == "Sequence" else [state]


def _kind(steps: list[dict[str, Any]]) -> str | None:
    names = [step["type"] for step in steps]
    if names == ["ByteLevel"]:
        return "byte level"
    if names[:3] != ["Replace", "ByteFallback", "Fuse"] or names[3:] not in ([], ["Strip"]):
        return None
    replaces = steps[0].get("pattern") == {"String": "▁"} and steps[0].get("content") == " "
    strips = all(step.get("content") == " " and step.get("stop") == 0 for step in steps[3:])
    return "byte fallback" if replaces and strips else None


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for every byte: itself where it prints, else the next one from U+0100."""
    prints = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in prints]
    return {chr(byte): byte for byte in prints} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


_BYTE_OF = _byte_alphabet()


def _byte_level(token: str) -> bytes:
    try:
        return bytes(_BYTE_OF[char] for char in token)
    except KeyError:  # an added token, written as itself
        return token.encode()


def _byte_fallback(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        try:
            return bytes([int(token[3:5], 16)])
        except ValueError:
            pass
    return token.replace("▁", " ").encode()
