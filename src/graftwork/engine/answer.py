"""What a step gives one row: its answer advanced by one token, with text, log-probabilities and whether it ends; or,
for a row that generates nothing, what its prompt became.
"""

from __future__ import annotations

from graftwork.engine.request import Delta, FinishReason, Pooled, TokenLogprob
from graftwork.engine.sampler import Sampled
from graftwork.engine.sequence import Sequence
from graftwork.engine.text import Text
from graftwork.errors import GenerationFailed


def advance(sequence: Sequence, sampled: Sampled, text: Text) -> Delta:
    """Append the token and return what the caller may see of it now.

    An end-of-text token and a stop string are not part of the text; both end the answer with `stop`.
    """
    token, stop = sampled.token_id, sequence.stop
    sequence.tokens.append(token)
    ended = token in sequence.stop_ids
    shown = "" if ended else stop.push(sequence.detokenizer.push(token))[0]
    finish: FinishReason | None = "length" if sequence.num_generated >= sequence.max_tokens else None
    if (finish or ended) and stop.stopped is None:
        shown += stop.push(sequence.detokenizer.flush())[0]
        if stop.stopped is None:
            shown += stop.flush()  # may itself end at a stop string that waited to be decided
    if ended or stop.stopped is not None:
        finish = "stop"
    return Delta(
        text=shown,
        token_ids=(token,),
        logprobs=_logprobs(sampled, text),
        finish_reason=finish,
        prompt_tokens=sequence.num_prompt - sequence.num_virtual,
        completion_tokens=sequence.num_generated,
    )


def pooled_result(sequence: Sequence, labels: tuple[str, ...]) -> Pooled | GenerationFailed:
    """The result of a pooling row whose prompt is computed; `labels` are those of its adapter."""
    assert sequence.pooler is not None, "a pooling row"
    made = sequence.pooler.result()
    if not bool(made.isfinite().all()):
        return GenerationFailed("The model's output is not finite: the pooled vector has NaN or infinite values.")
    return Pooled(
        values=tuple(made.tolist()),
        prompt_tokens=len(sequence.prompt),
        labels=labels if sequence.pooler.pooling == "classes" else (),
    )


def _logprobs(sampled: Sampled, text: Text) -> tuple[TokenLogprob, ...]:
    if sampled.logprob is None:
        return ()
    return (text.token_logprob(sampled.token_id, sampled.logprob, sampled.top),)
