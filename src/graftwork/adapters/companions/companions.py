"""Companions: what an adapter folder carries beside its weights, for its own answers only.

Chat template, added tokens, stop tokens and generation defaults, in the files that transformers writes:
https://huggingface.co/docs/transformers/main_classes/tokenizer and …/main_classes/text_generation
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from graftwork.adapters.companions.chat_template import syntax_problem
from graftwork.adapters.companions.generation_defaults import NO_DEFAULTS, GenerationDefaults, read_generation_defaults
from graftwork.adapters.companions.tokenizer_additions import MAX_TOKEN_CHARS, AddedToken, read_additions
from graftwork.adapters.companions.tokenizer_outline import TokenizerOutline
from graftwork.adapters.files.json_file import read_object
from graftwork.errors import Refused

_TEMPLATE, _TOKENIZER_CONFIG = "chat_template.jinja", "tokenizer_config.json"
_MAX_CONFIG_BYTES = 16 << 20
_MAX_TEMPLATE_BYTES = 1 << 20
_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True)
class Companions:
    """Everything that was found and is used; the empty one is what most adapters have."""

    #: Source of the adapter's own template; None: the base's.
    chat_template: str | None = None
    #: `bos_token` and its like, by the names that templates know them under.
    special_tokens: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    added_tokens: tuple[AddedToken, ...] = ()
    #: Tokens that end an answer, besides the base's.
    stop_ids: tuple[int, ...] = ()
    stop_token: str | None = None
    defaults: GenerationDefaults = NO_DEFAULTS
    #: The files that these come from.
    files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For the account: short, so the template is only said to be there."""
        return {
            "files": list(self.files),
            "chat_template": self.chat_template is not None,
            "added_tokens": [asdict(token) for token in self.added_tokens],
            "stop_ids": list(self.stop_ids),
            "stop_token": self.stop_token,
            "defaults": self.defaults.to_json(),
        }


NO_COMPANIONS = Companions()


@dataclass(frozen=True)
class FoundCompanions:
    companions: Companions
    problems: tuple[str, ...]
    warnings: tuple[str, ...]


def read_companions(folder: Path, base: TokenizerOutline | None, vocab_size: int) -> FoundCompanions:
    """What the folder carries; `base` None: nothing is known of the base's tokenizer but the size of its vocabulary.

    Never raises for a bad folder: what forbids serving it are `problems`.
    """
    try:
        return _read(folder, base, vocab_size)
    except Refused as refusal:
        return FoundCompanions(NO_COMPANIONS, (refusal.message,), ())


def _read(folder: Path, base: TokenizerOutline | None, vocab_size: int) -> FoundCompanions:
    config = read_object(folder / _TOKENIZER_CONFIG, _MAX_CONFIG_BYTES) or {}
    template, template_file = _chat_template(folder, config)
    additions = read_additions(folder, config, base, vocab_size)
    generation = read_generation_defaults(folder)
    special = {name: text for name in _SPECIAL if (text := _content(config.get(name))) is not None}
    stop = special.get("eos_token")
    problems = [*additions.problems, *generation.problems]
    problems += [
        f"{_TOKENIZER_CONFIG}: {name} has {len(text)} characters; a token has at most {MAX_TOKEN_CHARS}."
        for name, text in special.items()
        if len(text) > MAX_TOKEN_CHARS
    ]
    if template is not None and (reason := syntax_problem(template)):
        problems.append(f"{template_file}: the chat template cannot be read: {reason}.")
    added = {token.content: token.id for token in additions.tokens}
    if base is not None and stop is not None and stop not in added and stop not in base.id_of:
        problems.append(f"{_TOKENIZER_CONFIG}: eos_token {stop[:80]!r} is a token of neither base nor adapter.")
    size = max(vocab_size, *(number + 1 for number in added.values()), 0)
    problems += [
        f"generation_config.json: eos_token_id {number} is no token of base or adapter, which have {size}."
        for number in generation.stop_ids
        if number >= size
    ]
    files = [template_file] if template_file else []
    files += [*additions.files, *(["generation_config.json"] if generation.used else [])]
    if special:
        files.append(_TOKENIZER_CONFIG)
    made = Companions(
        chat_template=template,
        special_tokens=MappingProxyType(special),
        added_tokens=additions.tokens,
        stop_ids=generation.stop_ids,
        stop_token=stop,
        defaults=generation.defaults,
        files=tuple(sorted(set(files))),
    )
    return FoundCompanions(made, tuple(problems), (*additions.warnings, *generation.warnings))


def _chat_template(folder: Path, config: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The template's source and its file: the file of its own wins over the config's field, as in transformers."""
    file = folder / _TEMPLATE
    if file.is_file():
        if file.stat().st_size > _MAX_TEMPLATE_BYTES:
            raise Refused(f"{_TEMPLATE} is larger than {_MAX_TEMPLATE_BYTES} bytes.")
        try:
            return file.read_text(encoding="utf-8") or None, _TEMPLATE
        except (OSError, ValueError) as error:
            raise Refused(f"{_TEMPLATE} cannot be read as text: {error}") from error
    given = config.get("chat_template")
    if isinstance(given, list):  # named ones
        objects = [one for one in given if isinstance(one, dict)]
        named = {one["name"]: one.get("template") for one in objects if isinstance(one.get("name"), str)}
        if "default" not in named:
            raise Refused(f"{_TOKENIZER_CONFIG}: chat_template has several templates, and none is named default.")
        given = named["default"]
    if given is not None and not isinstance(given, str):
        raise Refused(f"{_TOKENIZER_CONFIG}: chat_template must be text, not {type(given).__name__}.")
    return (given, _TOKENIZER_CONFIG) if given else (None, None)


def _content(token: object) -> str | None:
    """A special token as text; older files write `{"content": …}`."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) and text else None
