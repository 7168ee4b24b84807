"""EmbeddingRequest and ClassifyRequest: the bodies of POST /v1/embeddings and /v1/classify."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.not_yet import NOT_YET_POOLING, refuse_not_yet
from graftwork.protocol.prompts import OnePrompt, PromptsGiven, read_prompts

MAX_INPUTS = 2048  # OpenAI's own limit


def _inputs(value: Any) -> tuple[OnePrompt, ...]:
    return read_prompts(value, most=MAX_INPUTS)


class PoolingFields(AdapterFields):
    """What both doors share: one or more inputs, each as text or as token ids."""

    # `Any` where it is stored: the validator has already made it a tuple of prompts.
    input: Annotated[Any, BeforeValidator(_inputs, json_schema_input_type=PromptsGiven)]

    def check(self) -> None:
        refuse_not_yet(self.model_extra or {}, NOT_YET_POOLING)

    @property
    def inputs(self) -> tuple[OnePrompt, ...]:
        inputs: tuple[OnePrompt, ...] = self.input
        return inputs


class EmbeddingRequest(PoolingFields):
    """Each input as a vector of the base's hidden size."""

    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int | None, Field(ge=1)] = None
    pooling: Literal["mean", "last"] | None = None
    normalize: bool | None = None


class ClassifyRequest(PoolingFields):
    """Each input as one of the classes that an adapter with a classification head was trained for."""

    logits: bool | None = None
