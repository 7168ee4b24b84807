"""NOT_YET: known fields without an effect so far; asking for one is an error, never silently ignored.

Each names the values that ask for nothing. A later step that brings a feature takes its line away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.errors import InvalidRequest

_BOTH: dict[str, tuple[Any, ...]] = {
    "use_beam_search": (False,),
    "logits_processors": ([],),
    "bad_words": ([],),
    "lora_request": (),
}

NOT_YET_CHAT: dict[str, tuple[Any, ...]] = _BOTH | {
    "echo": (False,),
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "chat_template": (),
    "continue_final_message": (False,),
    "add_generation_prompt": (True,),
}

NOT_YET_COMPLETIONS: dict[str, tuple[Any, ...]] = _BOTH | {
    "suffix": ("",),
}

#: vLLM's own fields among them.
NOT_YET_POOLING: dict[str, tuple[Any, ...]] = {
    "messages": ([],),
    "truncate_prompt_tokens": (),
    "add_special_tokens": (),
    "activation": (True,),
    "use_activation": (True,),
    "embed_dtype": ("float32",),
    "endianness": ("little",),
    "lora_request": (),
}


def refuse_not_yet(given: Mapping[str, Any], not_yet: Mapping[str, tuple[Any, ...]]) -> None:
    """Raises InvalidRequest for the first field in `given` that asks for something not there yet."""
    for field in given.keys() & not_yet.keys():
        value = given[field]
        if value is not None and not _harmless(value, not_yet[field]):
            raise InvalidRequest(f"{field} is not supported yet. Leave it out{_or_give(not_yet[field])}.", field=field)


def _harmless(value: Any, harmless: tuple[Any, ...]) -> bool:
    # True == 1 in Python; a boolean where a number belongs is not the harmless value.
    return any(type(value) is type(one) and value == one for one in harmless)


def _or_give(harmless: tuple[Any, ...]) -> str:
    return f", or give {harmless[0]!r}" if harmless else ""
