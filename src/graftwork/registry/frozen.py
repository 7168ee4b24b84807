"""Frozen JSON: values that nobody can change after they were registered, yet `json.dumps` writes."""

from __future__ import annotations

from typing import Any, NoReturn


class FrozenDict(dict[str, Any]):
    """A dict that refuses to change; it is its own copy."""

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("what a version was registered with is immutable; push a new version")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, _memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return FrozenDict, (dict(self),)


def freeze(value: Any) -> Any:
    """The same JSON value of FrozenDicts and tuples, all the way down."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value
