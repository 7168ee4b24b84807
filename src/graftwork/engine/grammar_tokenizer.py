"""grammar_tokenizer: a text's tokens as llguidance reads them."""

from __future__ import annotations

from llguidance import LLTokenizer, TokenizerWrapper

from graftwork.engine.text import Text


def grammar_tokenizer(text: Text) -> LLTokenizer:
    """Made of the bytes that our own texts are made of, so that both always agree; takes some tenths of a second.

    NOTE: llguidance's reading of the tokenizer's file takes every added token whose name looks like `<this>` for a
    special one, which no text may contain.

    Raises:
        ValueError: its tokens are not the bytes of the text.
    """
    if not text.exact:
        raise ValueError("its tokens, one by one, do not make up the text")
    tokens = _Tokens(text)
    tokens.made = LLTokenizer(TokenizerWrapper(tokens), eos_token=sorted(text.stop_ids) or None)
    return tokens.made


class _Tokens:
    """What `TokenizerWrapper` asks for."""

    bos_token_id = None

    def __init__(self, text: Text) -> None:
        self._text = text
        self.tokens = [bytes(text.token_bytes(token_id)) for token_id in range(text.vocab_size)]
        self.special_token_ids = [token_id for token_id in range(text.vocab_size) if text.skips(token_id)]
        self.eos_token_id = min(text.stop_ids, default=0)
        self.made: LLTokenizer | None = None

    def __call__(self, text: str) -> list[int]:
        """The tokens that a text without special ones is best made of; llguidance asks for what is the only way on."""
        if isinstance(text, bytes):
            raise TypeError("this tokenizer reads text")  # llguidance tries both
        ids = self._text.plain_ids(text)
        if self.made is not None and any(map(self._text.skips, ids)):  # the name of one, spelt out
            return self.made.greedy_tokenize(text)
        return ids
