"""SamplingFields: what both completion bodies share: whose answer, how it is drawn, how it comes back."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.body import Body

MAX_STOP_TOKEN_IDS = 16
INT32, INT64 = 2**31, 2**63


def _stop(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if stops is None or (isinstance(stops, list) and all(isinstance(one, str) and one for one in stops)):
        return stops or []
    raise ValueError("must be a non-empty string or a list of them")


class StreamOptions(Body):
    """`stream_options`: whether the last chunk carries the usage."""

    include_usage: bool | None = None


class SamplingFields(AdapterFields):
    """The fields that /v1/chat/completions and /v1/completions share, with OpenAI's and vLLM's ranges."""

    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1, lt=INT32)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    seed: Annotated[int | None, Field(ge=-INT64, lt=INT64)] = None
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=2)] = None

    max_tokens: Annotated[int | None, Field(ge=1, lt=INT32)] = None
    stop: Annotated[list[str], BeforeValidator(_stop)] = Field(default_factory=list)
    stop_token_ids: Annotated[
        list[Annotated[int, Field(ge=0, lt=INT32)]] | None, Field(max_length=MAX_STOP_TOKEN_IDS)
    ] = None
    ignore_eos: bool | None = None

    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
