"""Names: the grammar of adapters, tenants, routes and aliases.

Lower-case ASCII words joined by `.`, `_`, `__` or dashes: every name is its own URL, file and metric label,
and no two names look alike (no case twins, no Unicode forms, no blanks).
"""

from __future__ import annotations

import re

from graftwork.errors import InvalidRequest

MAX_LENGTH = 128
GRAMMAR = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*", re.ASCII)
RESERVED = re.compile(r"latest|v[0-9]+", re.ASCII)
#: No adapter's name either: as `model` it means the base, so such an adapter would never answer.
DEFAULT = "default"


def is_name(text: str) -> bool:
    """Whether `text` may name something (reserved words may not)."""
    return len(text) <= MAX_LENGTH and bool(GRAMMAR.fullmatch(text)) and not RESERVED.fullmatch(text)


def check_name(text: str, *, what: str) -> str:
    """`text` itself, when it may name a `what` ("adapter", "alias", "tenant").

    Raises:
        InvalidRequest: saying the grammar, or that the word is reserved.
    """
    if not isinstance(text, str):
        raise InvalidRequest(f"The {what} name must be a string, not {type(text).__name__}.", field=what)
    if what == "adapter" and text == DEFAULT:
        raise InvalidRequest("The adapter name 'default' is reserved: as a model it means the base.", field=what)
    if is_name(text):
        return text
    shown = ascii(text if len(text) <= 80 else text[:80] + "…")
    if RESERVED.fullmatch(text):
        raise InvalidRequest(f"The {what} name {shown} is reserved (`latest` and `v<digits>` are).", field=what)
    raise InvalidRequest(
        f"The {what} name {shown} is not allowed: use lower-case letters and digits in words joined by '.', "
        f"'_', '__' or '-', such as 'support-tone', at most {MAX_LENGTH} characters.",
        field=what,
    )
