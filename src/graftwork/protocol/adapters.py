"""AdapterFields: whose answer a request wants, and with whom it shares; every inference body has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from graftwork.protocol.body import Body
from graftwork.protocol.languages import LANGUAGE

MAX_ADAPTERS = 8
MAX_SALT = 256
MOST_PRIORITY = 1 << 31
MAX_WORD = 256


def read_salt(value: Any) -> str | None:
    """vLLM's `cache_salt`; raises ValueError."""
    if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_SALT):
        return value
    raise ValueError(f"must be a text of 1 to {MAX_SALT} characters")


def read_locale(value: Any) -> str | None:
    """A language range (RFC 4647); raises ValueError."""
    if value is None or (isinstance(value, str) and len(value) <= MAX_WORD and LANGUAGE.fullmatch(value)):
        return value
    raise ValueError("must be a language tag such as de or de-CH")


class ScaledAdapter(Body):
    """One of several adapters that answer together; a misspelt field would change what it does, so none is let by."""

    model_config = ConfigDict(extra="forbid")

    ref: str
    scale: float = 1.0


class AdapterFields(Body):
    """`model` as OpenAI has it; `adapter_id` or `adapters` win over it."""

    model: str | None = None
    adapter_id: str | None = None
    #: Whose chat template, added tokens, stop tokens and generation defaults are used; absent: the adapter's.
    companions: Literal["adapter", "base"] | None = None
    adapters: Annotated[list[ScaledAdapter] | None, Field(max_length=MAX_ADAPTERS)] = None
    #: What rules of routes may look at, and by what, where no user is known, a request keeps to one arm.
    task: Annotated[str | None, Field(min_length=1, max_length=MAX_WORD)] = None
    session_id: Annotated[str | None, Field(min_length=1, max_length=MAX_WORD)] = None
    locale: Annotated[str | None, BeforeValidator(read_locale)] = None
    #: Only requests with the same one share cached prompts; a secret keeps others from finding out what was asked.
    cache_salt: Annotated[str | None, BeforeValidator(read_salt)] = None
    #: As vLLM has it: of the same tenant's requests the smallest go first, and of equal ones the oldest. Absent: 0.
    priority: Annotated[int | None, Field(ge=-MOST_PRIORITY, lt=MOST_PRIORITY)] = None

    @property
    def user_id(self) -> str | None:
        """OpenAI's `user`: what the caller calls the person it asks for."""
        said = (self.model_extra or {}).get("user")
        return said if isinstance(said, str) and said else None
