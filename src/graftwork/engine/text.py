"""Text: a tokenizer with its chat template, from prompt to token ids and from token ids to text."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from graftwork.adapters.companions.companions import Companions
from graftwork.engine.added_tokens import extended
from graftwork.engine.detokenizer import Detokenizer, TokenTable
from graftwork.engine.request import ChatPrompt, Prompt, TokenLogprob, TopLogprob
from graftwork.engine.template_process import TemplateProcess
from graftwork.errors import InvalidRequest, Refused
from graftwork.models.tokenizer import load_tokenizer

_MAX_TEMPLATE_TOKENS = 1 << 20


@dataclass(frozen=True)
class Vocabulary:
    """What a grammar is prepared for: a tokenizer by its content, the token ids, and those that end an answer."""

    digest: str
    size: int
    stop_ids: frozenset[int]


class Text:
    """Made once per base, and once more per adapter that brings words of its own; safe to share between threads.

    Args:
        tokenizer: of transformers, with a `tokenizers` backend, which is set not to truncate or pad.
        vocab_size: rows of the base's embedding; token ids of prompts lie below it.
        stop_ids: tokens at which the base ends its answer.
    """

    def __init__(self, tokenizer: Any, *, vocab_size: int, stop_ids: frozenset[int]) -> None:
        self.vocab_size = vocab_size
        self.stop_ids = stop_ids
        #: Source of an adapter's own chat template, which `encode` runs in a process; None: the base's.
        self.template: str | None = None
        #: Tokens of an answer whose request does not say; None: up to the end of the context.
        self.max_new_tokens: int | None = None
        self._variables: Mapping[str, str] = {}
        self._tokenizer = tokenizer
        self._use(tokenizer.backend_tokenizer)
        self._start = _start_ids(self._backend, tokenizer.bos_token_id)

    @classmethod
    def open(cls, folder: Path, *, vocab_size: int | None = None) -> Text:
        """The tokenizer of a Hugging Face folder; `vocab_size` from its config.json when not given.

        Stop ids: `eos_token_id` of generation_config.json, else of config.json, and the tokenizer's own.

        Raises:
            Refused: it cannot be read, or has no `tokenizers` backend.
        """
        tokenizer = load_tokenizer(folder)
        config = _read_json(folder / "config.json")
        inner = config.get("text_config") or config
        generation = _read_json(folder / "generation_config.json")
        stops = generation.get("eos_token_id", config.get("eos_token_id", inner.get("eos_token_id")))
        stop_ids = frozenset({*_ids(stops), *_ids(tokenizer.eos_token_id)})
        size = int(vocab_size or inner.get("vocab_size") or len(tokenizer))
        return cls(tokenizer, vocab_size=size, stop_ids=stop_ids)

    def with_companions(self, companions: Companions) -> Text:
        """The text of an adapter that carries these; it shares the tokenizer unless there are tokens to add.

        Raises:
            Refused: a token cannot be added.
        """
        made = copy.copy(self)
        if companions.added_tokens:
            made._use(extended(self._backend, companions.added_tokens))
            made.vocab_size = max(self.vocab_size, 1 + max(token.id for token in companions.added_tokens))
        stop = made._backend.token_to_id(companions.stop_token) if companions.stop_token else None
        made.stop_ids = self.stop_ids | {*companions.stop_ids, *_ids(stop)}
        made.max_new_tokens = companions.defaults.max_new_tokens
        if (source := companions.chat_template) is not None:
            own = self._tokenizer.special_tokens_map
            bases = {name: str(value) for name, value in own.items() if isinstance(name, str) and name in source}
            theirs = {name: value for name, value in companions.special_tokens.items() if name in source}
            if source != self._tokenizer.chat_template or bases != bases | theirs:
                made.template, made._variables = source, bases | theirs
        return made

    def encode(
        self, prompt: Prompt, *, max_tokens: int | None = None, process: TemplateProcess | None = None
    ) -> tuple[int, ...]:
        """Token ids of a conversation (through the chat template), of a text, or as given.

        A text gets the beginning-of-text token if the tokenizer adds one by itself, and nothing else. One that is too
        long for `max_tokens` whatever its tokens are is refused before it is encoded, which would take seconds.
        A conversation needs a `process` for `template`, if there is one.

        Raises:
            InvalidRequest: empty, not text, too long, an id outside the vocabulary, or refused by the chat template;
                `field` is `messages` or `prompt`.
        """
        if isinstance(prompt, ChatPrompt):
            text = self._render(prompt, max_tokens, process)
            if not text:
                raise InvalidRequest("The chat template makes no text of these messages.", field="messages")
            return self._encode(text, max_tokens, field="messages")
        if isinstance(prompt, str):
            if not prompt:
                raise InvalidRequest("The prompt is empty; give at least one character.", field="prompt")
            return self._start + self._encode(prompt, max_tokens, field="prompt")
        return self._checked(prompt)

    @property
    def tool_template(self) -> str | None:
        """Source of the template that renders a conversation with tools."""
        own: str | dict[str, str] | None = self.template or self._tokenizer.chat_template
        return own.get("tool_use") or own.get("default") if isinstance(own, dict) else own

    def vocabulary(self) -> Vocabulary:
        """Equal where the same tokens mean the same; the first call takes a while for large tokenizers."""
        return Vocabulary(self._table.digest, self.vocab_size, self.stop_ids)

    @property
    def exact(self) -> bool:
        """Whether the bytes of an answer's tokens, one after another, are its text."""
        return self._table.exact

    def skips(self, token_id: int) -> bool:
        """Whether the token is no part of a text: special or unknown."""
        return self._table.skips(token_id)

    def plain_ids(self, text: str) -> list[int]:
        """The token ids of a text as it stands, without anything before or after it."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

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

    def _use(self, backend: Tokenizer) -> None:
        self._backend = backend
        backend.no_truncation()
        backend.no_padding()
        self._table = TokenTable(backend)
        self._longest = max(map(len, backend.get_vocab()))  # characters of one token at the most

    def _render(self, prompt: ChatPrompt, max_tokens: int | None, process: TemplateProcess | None) -> str:
        if self.template is None and not self._tokenizer.chat_template:
            raise InvalidRequest(
                "This base model has no chat template; send the prompt as text to /v1/completions.",
                field="messages",
            )
        messages = [_message(index, message) for index, message in enumerate(prompt.messages)]
        if not messages:
            raise InvalidRequest("messages is empty; give at least one message.", field="messages")
        if self.template is not None:
            assert process is not None, "a stranger's template runs nowhere else"
            fields: dict[str, Any] = {
                "messages": messages,
                "tools": list(prompt.tools) or None,
                "documents": None,
                "add_generation_prompt": True,
            }
            return process.render({**fields, **self._variables}, (max_tokens or _MAX_TEMPLATE_TOKENS) * self._longest)
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages, tools=list(prompt.tools) or None, tokenize=False, add_generation_prompt=True
                )
            )
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
