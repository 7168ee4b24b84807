"""SamplingFields: what both completion bodies share: whose answer, how it is drawn, how it comes back."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.structured import StructuredFields

MAX_STOP_TOKEN_IDS = 16
MAX_CHOICES = 128  # OpenAI's own limit of n
MAX_LOGIT_BIAS = 300
MAX_PROMPT_LOGPROBS = 20
INT32, INT64 = 2**31, 2**63


def _stop(value: Any) -> Any:
    stops = [value] if isinstance(value, str) else value
    if stops is None or (isinstance(stops, list) and all(isinstance(one, str) and one for one in stops)):
        return stops or []
    raise ValueError("must be a non-empty string or a list of them")


def _logit_bias(value: Any) -> Any:
    """OpenAI's map from token id, as text, to a number, as pairs."""
    if value is None:
        return ()
    if not isinstance(value, dict):
        raise ValueError("must be an object that maps token ids to numbers")
    if len(value) > MAX_LOGIT_BIAS:
        raise ValueError(f"names {len(value)} tokens; at most {MAX_LOGIT_BIAS} in one request")
    for key, bias in value.items():
        if not (key.isascii() and key.isdigit() and str(int(key[:11])) == key and int(key) < INT32):
            raise ValueError(f"has the key {key[:32]!r}, which is no token id")
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not -100 <= bias <= 100:
            raise ValueError(f"must give token {key} a number from -100 to 100")
    return tuple((int(key), float(bias)) for key, bias in value.items())


_Stop = Annotated[str, Field(min_length=1)]
#: How these look on the wire.
StopGiven = _Stop | list[_Stop] | None
BiasGiven = Annotated[dict[str, Annotated[float, Field(ge=-100, le=100)]], Field(max_length=MAX_LOGIT_BIAS)] | None


class StreamOptions(Body):
    """`stream_options`: whether the last chunk carries the usage."""

    include_usage: bool | None = None


class SamplingFields(StructuredFields):
    """The fields that /v1/chat/completions and /v1/completions share, with OpenAI's and vLLM's ranges."""

    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1, lt=INT32)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    seed: Annotated[int | None, Field(ge=-INT64, lt=INT64)] = None
    presence_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    frequency_penalty: Annotated[float | None, Field(ge=-2, le=2)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=2)] = None

    n: Annotated[int | None, Field(ge=1, le=MAX_CHOICES)] = None
    best_of: Annotated[int | None, Field(ge=1)] = None
    # `Any` where it is stored: the validator has already made it pairs of token id and number.
    logit_bias: Annotated[Any, BeforeValidator(_logit_bias, json_schema_input_type=BiasGiven)] = ()
    prompt_logprobs: Annotated[int | None, Field(ge=0, le=MAX_PROMPT_LOGPROBS)] = None

    max_tokens: Annotated[int | None, Field(ge=0, lt=INT32)] = None
    min_tokens: Annotated[int | None, Field(ge=0, lt=INT32)] = None
    stop: Annotated[list[str], BeforeValidator(_stop, json_schema_input_type=StopGiven)] = Field(default_factory=list)
    stop_token_ids: Annotated[
        list[Annotated[int, Field(ge=0, lt=INT32)]] | None, Field(max_length=MAX_STOP_TOKEN_IDS)
    ] = None
    ignore_eos: bool | None = None

    stream: bool | None = None
    stream_options: StreamOptions | None = None

    def check(self) -> None:
        _ = self.form  # two at once are refused
        if self.best_of is not None and self.best_of != self.choices:
            raise InvalidRequest(
                f"best_of is {self.best_of} and n is {self.choices}: no choice is thrown away here. Leave best_of out.",
                field="best_of",
            )
        if self.stream and self.prompt_logprobs is not None:
            raise InvalidRequest("prompt_logprobs is not available with stream. Leave one of them out.",
                                 field="prompt_logprobs")  # fmt: skip

    @property
    def choices(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
