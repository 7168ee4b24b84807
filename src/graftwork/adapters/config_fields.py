"""ConfigFields: reads an adapter's config field by field, and leaves no field unread that could change the answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeGuard

from graftwork.adapters.patterns import MAX_CHARS, MAX_PATTERNS

#: No trained adapter comes near; what lies beyond is damage, and would overflow.
LARGEST_RANK = 1 << 16
_LARGEST_NUMBER = 1e30
_LARGEST_TOKEN = 1 << 31
#: Fields that every PEFT config has and that describe where it came from, not what it does.
_PROVENANCE = frozenset(
    {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_type", "peft_version", "revision", "task_type"}
)


class ConfigFields:
    """One config while it is read. A field that is wrong becomes a problem by its name and reads as a default.

    `ignored` are the fields that a kind knows to have no effect on a trained adapter; every field that is neither read
    nor ignored is refused when it holds anything but a text, as it may change the answer.
    """

    def __init__(self, config: Mapping[str, Any], ignored: Collection[str] = ()) -> None:
        self._config = config
        self._known = {*_PROVENANCE, *ignored}
        self._problems: list[str] = []

    def problems(self) -> list[str]:
        """What was wrong, by field; asked when everything is read."""
        unknown = [
            f"{field}: unknown field with a value; it may change the answer, so it must go."
            for field in self._unknown()
            if not isinstance(self._config[field], str)
        ]
        return [*self._problems, *unknown]

    def warnings(self) -> list[str]:
        """What is passed over, by field."""
        texts = [field for field in self._unknown() if isinstance(self._config[field], str)]
        return [f"{field}: unknown field in adapter_config.json, ignored." for field in texts]

    def bad(self, field: str, want: str) -> None:
        """Remember that a field is not what it must be."""
        self._problems.append(f"{field}: {short(self._config.get(field))} must be {want}.")

    def refused(self, field: str, why: str, *allowed: object) -> None:
        """A field that changes the answer and is not served: only empty, or one of `allowed`."""
        value = self._take(field)
        if (value or value == {}) and value not in allowed:
            self._problems.append(f"{field}: {short(value)} is not supported yet: {why}.")

    def agrees(self, field: str, wanted: int, what: str) -> None:
        """A field that describes the base must do so rightly; empty is as PEFT fills it in."""
        value = self._take(field)
        if value is not None and value != wanted:
            self.bad(field, f"{wanted}, {what} of this base")

    def whole(self, field: str, *, least: int = 1, most: int = LARGEST_RANK, default: int | None = None) -> int:
        value = self._take(field)
        value = default if value is None else value
        if is_whole(value) and least <= value <= most:
            return value
        self.bad(field, f"a whole number from {least} to {most}")
        return least

    def number(self, field: str) -> float:
        value = self._take(field)
        if is_number(value):
            return float(value)
        self.bad(field, "a finite number")
        return 1.0

    def flag(self, field: str, default: bool = False) -> bool:
        value = self._take(field)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.bad(field, "true or false")
        return default

    def choice(self, field: str, choices: tuple[str, ...]) -> str:
        """One of a few words; the first where there is nothing."""
        value = self._take(field)
        if value is None or value in choices:
            return value or choices[0]
        self.bad(field, f"one of {', '.join(choices)}")
        return choices[0]

    def token_ids(self, field: str) -> tuple[int, ...] | None:
        """A list of token ids; None where there is nothing."""
        value = self._take(field)
        if value is None or value == []:
            return None
        if are_token_ids(value):
            return tuple(value)
        self.bad(field, "a list of token ids")
        return None

    def names(self, field: str, *, needed: bool = False) -> str | tuple[str, ...] | None:
        """One name or pattern, or a list of names; None where there is nothing."""
        value = self._take(field)
        if (value is None and not needed) or (isinstance(value, str) and len(value) <= MAX_CHARS):
            return value
        if isinstance(value, list) and all(isinstance(item, str) for item in value) and _is_bounded(value):
            return tuple(value)
        self.bad(field, f"a name, a pattern or a list of at most {MAX_PATTERNS} names of {MAX_CHARS} characters")
        return None

    def layers(self, field: str) -> tuple[int, ...] | None:
        """Layer numbers; None where all are meant."""
        value = self._take(field)
        items = [value] if is_whole(value) else value
        if items is None or items == []:
            return None
        if isinstance(items, list) and all(is_whole(item) for item in items):
            return tuple(items)
        self.bad(field, "a layer number or a list of them")
        return None

    def pattern(self, field: str, good: Callable[[Any], bool], what: str) -> Mapping[str, Any]:
        """An object from module names or patterns to values that are `good`; `what` is their name in the plural."""
        value = self._take(field) or {}
        if isinstance(value, dict) and all(good(item) for item in value.values()) and _is_bounded(value):
            return value
        self.bad(field, f"an object of at most {MAX_PATTERNS} module patterns and their {what}")
        return {}

    def value(self, field: str) -> Any:
        """Whatever stands there, for a field whose shape only its kind knows; `bad` says what it should be."""
        return self._take(field)

    def problem(self, text: str) -> None:
        """Remember what is wrong with fields that do not go together; the text names them."""
        self._problems.append(text)

    def _take(self, field: str) -> Any:
        self._known.add(field)
        return self._config.get(field)

    def _unknown(self) -> list[str]:
        return sorted(field for field in set(self._config) - self._known if self._config[field])


def is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_rank(value: Any) -> TypeGuard[int]:
    return is_whole(value) and 1 <= value <= LARGEST_RANK


def are_token_ids(value: Any) -> bool:
    return isinstance(value, list) and all(is_whole(one) and 0 <= one < _LARGEST_TOKEN for one in value)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_NUMBER


def _is_bounded(names: Collection[str]) -> bool:
    return len(names) <= MAX_PATTERNS and all(len(name) <= MAX_CHARS for name in names)


def short(value: object) -> str:
    """A value of a config as a message shows it."""
    text = repr(value) if not is_whole(value) or abs(value) <= _LARGEST_NUMBER else "a huge number"
    return text if len(text) <= 80 else f"{text[:80]}…"
