"""Text: the base model's tokenizer, from prompt to token ids and from token ids to text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from graftwork.engine.detokenizer import Detokenizer, TokenTable
from graftwork.engine.request import ChatPrompt, Prompt, TokenLogprob, TopLogprob
from graftwork.errors import InvalidRequest, Refused


class Text:
    """Made once per base and safe to share between threads: after construction it only reads.

    Args:
        tokenizer: of transformers, with a `tokenizers` backend, which is set not to truncate or pad.
        vocab_size: rows of the base's embedding; token ids of prompts lie below it.
        stop_ids: tokens at which the base ends its answer.
    """

    def __init__(self, tokenizer: Any, *, vocab_size: int, stop_ids: frozenset[int]) -> None:
        self.vocab_size = vocab_size
        self.stop_ids = stop_ids
        self._tokenizer = tokenizer
        self._backend: Tokenizer = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._table = TokenTable(self._backend)
        self._longest = max(map(len, self._backend.get_vocab()))  # characters of one token at the most
        self._start = _start_ids(self._backend, tokenizer.bos_token_id)

    @classmethod
    def open(cls, folder: Path, *, vocab_size: int | None = None) -> Text:
        """The tokenizer of a Hugging Face folder; `vocab_size` from its config.json when not given.

        Stop ids: `eos_token_id` of generation_config.json, else of config.json, and the tokenizer's own.

        Raises:
            Refused: it cannot be read, or has no `tokenizers` backend.
        """
        tokenizer = _load(folder)
        config = _read_json(folder / "config.json")
        inner = config.get("text_config") or config
        generation = _read_json(folder / "generation_config.json")
        stops = generation.get("eos_token_id", config.get("eos_token_id", inner.get("eos_token_id")))
        stop_ids = frozenset({*_ids(stops), *_ids(tokenizer.eos_token_id)})
        size = int(vocab_size or inner.get("vocab_size") or len(tokenizer))
        return cls(tokenizer, vocab_size=size, stop_ids=stop_ids)

    def encode(self, prompt: Prompt, *, max_tokens: int | None = None) -> tuple[int, ...]:
        """Token ids of a conversation (through the chat template), of a text, or as given.

        A text gets the beginning-of-text token if the tokenizer adds one by itself, and nothing else. One that is too
        long for `max_tokens` whatever its tokens are is refused before it is encoded, which would take seconds.

        Raises:
            InvalidRequest: empty, not text, too long, an id outside the vocabulary, or refused by the chat template;
                `field` is `messages` or `prompt`.
        """
        if isinstance(prompt, ChatPrompt):
            return self._encode(self._render(prompt), max_tokens, field="messages")
        if isinstance(prompt, str):
            if not prompt:
                raise InvalidRequest("The prompt is empty; give at least one character.", field="prompt")
            return self._start + self._encode(prompt, max_tokens, field="prompt")
        return self._checked(prompt)

    def detokenizer(self, after: Sequence[int] = ()) -> Detokenizer:
        """A fresh one for one answer, which is shown after the text of the tokens `after`."""
        return self._table.detokenizer(after)

    def echo(self, prompt: Prompt, tokens: Sequence[int]) -> str:
        """A prompt as an answer repeats it: a text as it was given, else what its tokens say, special ones by name."""
        return prompt if isinstance(prompt, str) else str(self._backend.decode(list(tokens), skip_special_tokens=False))

    def token_bytes(self, token_id: int) -> tuple[int, ...]:
        """The token's share of the text in UTF-8, perhaps part of a character; a special token's name."""
        return tuple(self._table.bytes_of(token_id))

    def token_text(self, token_id: int) -> str:
        """The token as shown beside its log-probability; U+FFFD stands for part of a character."""
        return self._table.bytes_of(token_id).decode("utf-8", "replace")

    def token_logprob(
        self,
        token_id: int,
        logprob: float | None,
        top: tuple[tuple[int, float], ...] = (),
        rank: int | None = None,
    ) -> TokenLogprob:
        """A sampler's record in words; `top` is (token id, logprob), likeliest first."""
        alternatives = tuple(TopLogprob(one, self.token_text(one), self.token_bytes(one), value) for one, value in top)
        return TokenLogprob(
            token_id, self.token_text(token_id), self.token_bytes(token_id), logprob, alternatives, rank
        )

    def _render(self, prompt: ChatPrompt) -> str:
        if not self._tokenizer.chat_template:
            raise InvalidRequest(
                "This base model has no chat template; send the prompt as text to /v1/completions.",
                field="messages",
            )
        messages = [_message(index, message) for index, message in enumerate(prompt.messages)]
        if not messages:
            raise InvalidRequest("messages is empty; give at least one message.", field="messages")
        try:
            return str(self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # a template is a program of the base's; whatever it raises is its refusal
            raise InvalidRequest(
                f"The base model's chat template refused the messages: {error}", field="messages"
            ) from error

    def _encode(self, text: str, max_tokens: int | None, *, field: str) -> tuple[int, ...]:
        if max_tokens is not None and len(text) > max_tokens * self._longest:
            raise InvalidRequest(
                f"The prompt has {len(text)} characters; the context of {max_tokens} tokens holds at most "
                f"{max_tokens * self._longest}, and usually a tenth of that.",
                field=field,
            )
        try:
            # The backend itself: transformers would set truncation on the shared object at each call.
            ids = tuple(self._backend.encode(text, add_special_tokens=False).ids)
        except TypeError as error:
            raise InvalidRequest(f"{field} holds half a surrogate pair, which is not text.", field=field) from error
        if not ids:
            raise InvalidRequest(f"{field} gives no token at all; write some text.", field=field)
        return ids

    def _checked(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        if not ids:
            raise InvalidRequest("The prompt is empty; give at least one token id.", field="prompt")
        for token_id in ids:
            if type(token_id) is not int or not 0 <= token_id < self.vocab_size:
                raise InvalidRequest(
                    f"{token_id!r} is no token id of this base model, which has 0 to {self.vocab_size - 1}.",
                    field="prompt",
                )
        return ids


def _message(index: int, message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with a list of text parts joined by line ends, because few templates read lists."""
    if not isinstance(message, Mapping):
        raise InvalidRequest(f"messages[{index}] must be an object with role and content.", field="messages")
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return dict(message)
    texts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
    plain = [text for text in texts if isinstance(text, str)]
    if len(plain) != len(texts):
        raise InvalidRequest(
            f"messages[{index}].content holds a part that is not text; this model reads only text.",
            field="messages",
        )
    return {**message, "content": "\n".join(plain)}


def _start_ids(backend: Tokenizer, bos_token_id: int | None) -> tuple[int, ...]:
    """The beginning-of-text token, when the tokenizer puts it before a text by itself."""
    return (bos_token_id,) if bos_token_id is not None and backend.encode("a").ids[:1] == [bos_token_id] else ()


def _load(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # transformers and tokenizers raise anything, bare Exception included
        raise Refused(f"The tokenizer in {folder} cannot be read: {error}") from error
    if getattr(tokenizer, "backend_tokenizer", None) is None:
        raise Refused(f"The tokenizer in {folder} has no tokenizer.json; save it as a fast tokenizer first.")
    return tokenizer


def _ids(value: object) -> list[int]:
    values = value if isinstance(value, list) else [value]
    return [one for one in values if type(one) is int]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refused(f"{path} cannot be read as JSON: {error}") from error
    return data if isinstance(data, dict) else {}
