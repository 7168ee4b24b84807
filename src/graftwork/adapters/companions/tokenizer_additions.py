"""The tokens that an adapter's tokenizer has beyond its base's, and whether the two agree on all others."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graftwork.adapters.companions.tokenizer_outline import TokenizerOutline, merges_digest, pipeline_digest
from graftwork.adapters.files.json_file import read_object
from graftwork.errors import Refused

_TOKENIZER, _CONFIG, _ADDED = "tokenizer.json", "tokenizer_config.json", "added_tokens.json"
#: Files of slow tokenizers, which say nothing that tokenizer.json does not.
_SLOW = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_MAX_TOKENIZER_BYTES = 64 << 20
_MAX_ADDED_BYTES = 16 << 20
MAX_TOKENS = 16384
MAX_TOKEN_CHARS = 512
_FLAGS = ("special", "single_word", "lstrip", "rstrip", "normalized")


@dataclass(frozen=True, order=True)
class AddedToken:
    """A token that is found in a text before anything else is; the flags are those of `tokenizers.AddedToken`."""

    id: int
    content: str
    special: bool = False
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False


@dataclass(frozen=True)
class Additions:
    tokens: tuple[AddedToken, ...]
    files: tuple[str, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def read_additions(
    folder: Path, config: Mapping[str, Any], base: TokenizerOutline | None, vocab_size: int
) -> Additions:
    """Additions of tokenizer.json, of `added_tokens_decoder` in `config` (tokenizer_config.json), of added_tokens.json.

    Raises:
        Refused: a file cannot be read.
    """
    tokenizer = read_object(folder / _TOKENIZER, _MAX_TOKENIZER_BYTES)
    plain = read_object(folder / _ADDED, _MAX_ADDED_BYTES) or {}
    if tokenizer is None:
        slow = [name for name in _SLOW if (folder / name).is_file()]
        warnings = [f"{name} is not read; the base's tokenizer is used." for name in slow]
        problems: list[str] = []
    else:
        problems, warnings = _compare(tokenizer, base)
    merged = _Merged(base, vocab_size)
    merged.add(_CONFIG, _of_decoder(config.get("added_tokens_decoder")))
    merged.add(_TOKENIZER, _of_list((tokenizer or {}).get("added_tokens")))
    merged.add(_ADDED, ((token, False) for token in _of_plain(plain)))
    tokens = tuple(sorted(merged.tokens.values()))
    if len(tokens) > MAX_TOKENS:
        raise Refused(f"The adapter's tokenizer adds {len(tokens)} tokens; at most {MAX_TOKENS} are served.")
    if base is not None and tokenizer is not None and not problems:
        problems += _unreachable(tokenizer, base, merged.tokens)
    return Additions(tokens, tuple(sorted(merged.files)), (*problems, *merged.problems), tuple(warnings))


class _Merged:
    """Additions of several files, which must not contradict each other or the base."""

    def __init__(self, base: TokenizerOutline | None, vocab_size: int) -> None:
        self._base = base
        self._known = base.tokens if base is not None else ()
        self._first_new = 0 if base is not None else vocab_size
        self._id_of = ChainMap[str, int]({}, base.id_of if base is not None else {})
        self.tokens: dict[int, AddedToken] = {}
        self.files: set[str] = set()
        self.problems: list[str] = []

    def add(self, file: str, found: Iterator[tuple[AddedToken, bool]]) -> None:
        """Each with whether the file says its flags."""
        for token, flagged in found:
            theirs = self._known[token.id] if token.id < len(self._known) else None
            if theirs == token.content or token.id < self._first_new:
                continue
            mine = self.tokens.get(token.id)
            if reason := self._contradiction(token, theirs, mine, flagged):
                self.problems.append(f"{file}: token {token.id} is {token.content[:80]!r}, {reason}.")
            elif mine is None:
                self.tokens[token.id] = token
                self._id_of[token.content] = token.id
                self.files.add(file)

    def _contradiction(
        self, token: AddedToken, theirs: str | None, mine: AddedToken | None, flagged: bool
    ) -> str | None:
        if theirs is not None:
            return f"but the base's is {theirs[:80]!r}"
        if not 0 < len(token.content) <= MAX_TOKEN_CHARS:
            return f"which has {len(token.content)} characters and not 1 to {MAX_TOKEN_CHARS}"
        if mine is not None and mine.content != token.content:
            return f"but another file of the adapter has {mine.content[:80]!r}"
        if mine is not None and flagged and mine != token:
            return "but another file of the adapter gives it other flags"
        if self._id_of.get(token.content, token.id) != token.id:
            return f"which is token {self._id_of[token.content]} already"
        return None


def _compare(tokenizer: Mapping[str, Any], base: TokenizerOutline | None) -> tuple[list[str], list[str]]:
    """What forbids using the base's tokenizer in place of this one, and what is worth saying."""
    if base is None:
        return [], []
    mine = {number: token for token, number in _vocabulary(tokenizer).items()}
    for number, theirs in enumerate(base.tokens):
        if theirs is not None and mine.get(number, theirs) != theirs:
            return [
                f"{_TOKENIZER}: token {number} is {mine[number][:80]!r}, but the base's is {theirs[:80]!r}. The "
                "adapter was trained with another tokenizer; without the file it is served with the base's."
            ], []
    if merges_digest(tokenizer) != base.merges:
        return [f"{_TOKENIZER}: its merges are not the base's, so it splits words otherwise."], []
    if pipeline_digest(tokenizer) not in base.pipelines:
        return [], [
            f"{_TOKENIZER}: its normalizer or pre_tokenizer is written otherwise than the base's, which is used."
        ]
    return [], []


def _unreachable(tokenizer: Mapping[str, Any], base: TokenizerOutline, added: Mapping[int, AddedToken]) -> list[str]:
    known = {token for token in base.tokens if token is not None} | {token.content for token in added.values()}
    extra = sorted(set(_vocabulary(tokenizer)) - known)
    if not extra:
        return []
    return [f"{_TOKENIZER}: {len(extra)} tokens are neither the base's nor added tokens, {extra[0][:80]!r} first."]


def _vocabulary(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """Token to id, added tokens included; what is malformed is left out."""
    model = tokenizer.get("model")
    vocab = model.get("vocab") if isinstance(model, Mapping) else None
    found: dict[str, int] = {}
    if isinstance(vocab, Mapping):
        found = {token: number for token, number in vocab.items() if type(number) is int}
    elif isinstance(vocab, list):  # Unigram: [token, score] by id
        found = {
            row[0]: number
            for number, row in enumerate(vocab)
            if isinstance(row, list) and row and isinstance(row[0], str)
        }
    return found | {token.content: token.id for token, _ in _of_list(tokenizer.get("added_tokens"))}


def _of_list(value: object) -> Iterator[tuple[AddedToken, bool]]:
    for one in value if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield _token(_TOKENIZER, one.get("id"), one), True


def _of_decoder(value: object) -> Iterator[tuple[AddedToken, bool]]:
    for key, one in value.items() if isinstance(value, dict) else ():
        if isinstance(one, dict):
            yield _token(_CONFIG, int(key) if key.isascii() and key.isdecimal() and len(key) < 10 else None, one), True


def _of_plain(value: Mapping[str, Any]) -> Iterator[AddedToken]:
    for content, number in value.items():
        yield _token(_ADDED, number, {"content": content})


def _token(file: str, number: object, fields: Mapping[str, Any]) -> AddedToken:
    content = fields.get("content")
    if type(number) is not int or not 0 <= number < 2**31 or not isinstance(content, str):
        raise Refused(f"{file}: {str(dict(fields))[:120]} is no added token: it needs content and an id of at least 0.")
    flags = {name: fields.get(name, False) for name in _FLAGS}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        raise Refused(f"{file}: a flag of the added token {content[:80]!r} is not true or false.")
    return AddedToken(number, content, **flags)
