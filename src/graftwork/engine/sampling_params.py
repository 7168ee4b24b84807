"""SamplingParams: how one request wants its tokens chosen, and when it wants to stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graftwork.errors import InvalidRequest

#: Most alternatives per token that `logprobs` and `prompt_logprobs` may ask for.
MAX_LOGPROBS = 20
MAX_STOP_STRINGS = 64
MAX_STOP_CHARS = 1024
#: Most tokens that `logit_bias` may name, as at OpenAI.
MAX_LOGIT_BIAS = 300
#: Below this temperature the softmax is the argmax to float32, so the argmax is what we take.
GREEDY_TEMPERATURE = 1e-5


@dataclass(frozen=True)
class SamplingParams:
    """Checked on construction; the defaults sample from the model's own distribution.

    Raises:
        InvalidRequest: a value is of the wrong type, not finite or out of range; `field` names it.
    """

    #: Divides the logits; 0 takes the likeliest token (of equals, the lowest id).
    temperature: float = 1.0
    #: Keep the likeliest tokens that together reach this probability; 1 keeps all.
    top_p: float = 1.0
    #: Keep this many of the likeliest tokens; 0 or -1 keeps all.
    top_k: int = 0
    #: Keep tokens at least this fraction as likely as the likeliest; 0 keeps all.
    min_p: float = 0.0
    #: Same seed, prompt and version: same tokens, alone or in a batch. None: another answer each time.
    seed: int | None = None
    #: Most tokens to generate; None: until the model stops or the context is full; 0, only with `echo` or
    #: `prompt_logprobs`: nothing but the prompt is looked at.
    max_tokens: int | None = None
    #: Tokens that come before any end-of-text token or stop string; as in vLLM, those cannot be chosen sooner.
    min_tokens: int = 0
    #: Go on past the base's end-of-text tokens.
    ignore_eos: bool = False
    #: Texts that end the answer; they are not part of it.
    stop: tuple[str, ...] = ()
    #: Further token ids that end the answer.
    stop_token_ids: tuple[int, ...] = ()
    #: None: no log-probabilities; n: of each chosen token and of the n likeliest.
    logprobs: int | None = None
    #: Begin the answer with the prompt: its text, and with `logprobs` its tokens.
    echo: bool = False
    #: As `logprobs`, of the prompt's own tokens; the first has nothing before it and gets none.
    prompt_logprobs: int | None = None
    #: (token id, number from -100 to 100) pairs, each added to its logit before penalties and temperature.
    logit_bias: tuple[tuple[int, float], ...] = ()
    #: Subtracted once from the logit of every token already in the answer.
    presence_penalty: float = 0.0
    #: Subtracted per occurrence from the logit of every token already in the answer.
    frequency_penalty: float = 0.0
    #: Positive logits of tokens in prompt or answer are divided by it, negative ones multiplied; 1 is off.
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, math.inf)
        _number("top_p", self.top_p, 0.0, 1.0)
        _number("min_p", self.min_p, 0.0, 1.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _number("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
        _integer("top_k", self.top_k, -1, 2**31 - 1)
        if self.seed is not None:
            _integer("seed", self.seed, -(2**63), 2**63 - 1)
        if self.max_tokens is not None:
            _integer("max_tokens", self.max_tokens, 0, 2**31 - 1)
        for field in ("logprobs", "prompt_logprobs"):
            if getattr(self, field) is not None:
                _integer(field, getattr(self, field), 0, MAX_LOGPROBS)
        for field in ("ignore_eos", "echo"):
            _boolean(field, getattr(self, field))
        self._check_counts()
        _check_logit_bias(self.logit_bias)
        _check_stop(self.stop)
        _check_stop_token_ids(self.stop_token_ids)

    def _check_counts(self) -> None:
        _integer("min_tokens", self.min_tokens, 0, 2**31 - 1)
        if self.max_tokens == 0 and not self.echo and self.prompt_logprobs is None:
            raise InvalidRequest(
                "max_tokens is 0, which asks for nothing: ask for at least 1, or with echo or prompt_logprobs for the "
                "prompt alone.",
                field="max_tokens",
            )
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidRequest(
                f"min_tokens is {self.min_tokens}, more than max_tokens, which is {self.max_tokens}.",
                field="min_tokens",
            )

    @property
    def greedy(self) -> bool:
        """Whether the choice is the argmax, without a draw."""
        return self.temperature < GREEDY_TEMPERATURE or self.top_k == 1

    @property
    def penalised(self) -> bool:
        """Whether the choice looks at the tokens so far."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0)

    @property
    def prompt_alternatives(self) -> int | None:
        """How many to find for each token of the prompt; None: its tokens are not rated at all."""
        echoed = self.logprobs if self.echo else None
        return max((count for count in (self.prompt_logprobs, echoed) if count is not None), default=None)


def _number(field: str, value: object, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{field} must be a number, not {value!r}.", field=field)
    if not (low <= value <= high and abs(value) <= 3e38):  # NaN fails every comparison; 3e38: the end of float32
        limits = f"a finite number of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise InvalidRequest(f"{field} must be {limits}, not {value!r}.", field=field)


def _integer(field: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{field} must be a whole number, not {value!r}.", field=field)
    if not low <= value <= high:
        raise InvalidRequest(f"{field} must be from {low} to {high}, not {value}.", field=field)


def _boolean(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidRequest(f"{field} must be true or false, not {value!r}.", field=field)


def _check_logit_bias(pairs: object) -> None:
    field = "logit_bias"
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise InvalidRequest(f"{field} must be a tuple of (token id, number) pairs, not {pairs!r}.", field=field)
    if len(pairs) > MAX_LOGIT_BIAS:
        raise InvalidRequest(f"{field} takes at most {MAX_LOGIT_BIAS} tokens, not {len(pairs)}.", field=field)
    for token_id, bias in pairs:
        _integer(field, token_id, 0, 2**31 - 1)
        _number(field, bias, -100.0, 100.0)
    if len({token_id for token_id, _ in pairs}) < len(pairs):
        raise InvalidRequest(f"{field} names a token twice.", field=field)


def _check_stop(stop: object) -> None:
    # A bare string is a sequence of one-letter strings: refused, or it would stop at each of its letters.
    if not isinstance(stop, tuple) or not all(isinstance(text, str) for text in stop):
        raise InvalidRequest(f"stop must be a tuple of strings, not {stop!r}.", field="stop")
    if len(stop) > MAX_STOP_STRINGS:
        raise InvalidRequest(f"stop takes at most {MAX_STOP_STRINGS} strings, not {len(stop)}.", field="stop")
    for text in stop:
        if not 1 <= len(text) <= MAX_STOP_CHARS:
            raise InvalidRequest(
                f"Each stop string has 1 to {MAX_STOP_CHARS} characters; one has {len(text)}.", field="stop"
            )


def _check_stop_token_ids(ids: object) -> None:
    if not isinstance(ids, tuple):
        raise InvalidRequest(f"stop_token_ids must be a tuple of token ids, not {ids!r}.", field="stop_token_ids")
    for token_id in ids:
        _integer("stop_token_ids", token_id, 0, 2**31 - 1)
