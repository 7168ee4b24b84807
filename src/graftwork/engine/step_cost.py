"""StepCost: what a step takes, learned from the steps before it, and how many prompt tokens it therefore may take."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Prompt tokens that a step may always take: prompts get on, whatever the rows that decode would like.
LEAST_PROMPT_TOKENS = 16
#: A step's tokens are made a multiple of this where it can be chosen: matmul libraries prepare each new size once.
ROUND_TO = 16
_SHARE = 3.0  # times what decoding takes that a step may take where the target is out of reach
_WEIGHT = 0.25  # of a new step among the older ones
_FULL_WEIGHT_TOKENS = 64  # prompt tokens from which a step says enough about what each of them costs
_MOST_SURPRISE = 2.0  # a step that something else held up counts as at most so many times what was expected


@dataclass(frozen=True, slots=True)
class StepCost:
    """A step takes `fixed_s` and `token_s` for each of its tokens, in seconds; zeros: nothing is known yet.

    NOTE: two moving averages. Steps that only decode tell of the fixed part (weights and keys are read, whatever the
    tokens), steps with prompts tell of the part per token. A prompt's tokens cost as much more as there are of them
    once some rows share the weights, so that a line is enough.
    """

    fixed_s: float = 0.0
    token_s: float = 0.0

    def of(self, tokens: int) -> float:
        """Seconds that a step of so many tokens is expected to take."""
        return self.fixed_s + self.token_s * tokens

    def after(self, decoding: int, prompt_tokens: int, seconds: float) -> StepCost:
        """What is expected once a step has taken `seconds` for one token of each decoding row and prompt tokens."""
        tokens = decoding + prompt_tokens
        if not self.token_s:
            return StepCost(0.0, seconds / tokens)
        seconds = min(seconds, _MOST_SURPRISE * self.of(tokens))
        if not prompt_tokens:
            return replace(self, fixed_s=_nearer(self.fixed_s, max(0.0, seconds - self.token_s * tokens), _WEIGHT))
        least = seconds / tokens / _MOST_SURPRISE**2  # where the fixed part is thought to be more than there is
        weight = _WEIGHT * min(1.0, prompt_tokens / _FULL_WEIGHT_TOKENS)
        return replace(self, token_s=_nearer(self.token_s, max(least, (seconds - self.fixed_s) / tokens), weight))


def prompt_budget(cost: StepCost, decoding: int, rows: int, most: int, target_s: float) -> int:
    """Prompt tokens, `most` at the most, that a step may take beside one token of each decoding row.

    So many that the step is expected to end within `target_s`, or within three times what a step takes in which all
    `rows` that are here decode, where that is longer: were it less, prompts would wait while few rows decode, and
    slowly fill a batch that ends as fast. All of `most` where nothing decodes or is known yet, or the target is 0.
    """
    if not decoding or not target_s or not cost.token_s:
        return most
    spare_s = max(target_s, _SHARE * cost.of(max(rows, decoding))) - cost.of(decoding)
    if spare_s >= most * cost.token_s:
        return most
    count = int(spare_s / cost.token_s)
    return min(most, max(LEAST_PROMPT_TOKENS, count - (decoding + count) % ROUND_TO))


def _nearer(old: float, new: float, weight: float) -> float:
    return old + weight * (new - old)
