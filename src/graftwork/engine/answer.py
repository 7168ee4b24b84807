"""What a step gives one row: its answer advanced by one token, with text, log-probabilities and whether it ends; or,
for a row that generates nothing, what its prompt became.
"""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import replace

from graftwork.engine.request import Delta, FinishReason, Pooled, TokenLogprob
from graftwork.engine.sampler import Sampled
from graftwork.engine.sequence import Sequence
from graftwork.engine.text import Text
from graftwork.errors import GenerationFailed


def advance(sequence: Sequence, sampled: Sampled | None) -> Delta:
    """Append the token and return what the caller may see of it now; None is the end of an answer without tokens.

    An end-of-text token and a stop string are not part of the text; both end the answer with `stop`, and so does a
    grammar in which nothing can follow.
    """
    begins, params = not sequence.num_generated, sequence.params
    shown, finish = ("", "length") if sampled is None else _push(sequence, sampled.token_id)
    logprobs = () if sampled is None else _logprobs(sampled, sequence.text)
    rated: tuple[TokenLogprob, ...] | None = None
    if begins and sequence.alternatives is not None:
        first = sequence.text.token_logprob(sequence.prompt[0], None)
        rated = (first, *sequence.rated)
        if params.echo and params.logprobs is not None:
            logprobs = _fitted(_cut(rated, params.logprobs), sequence.echo) + logprobs
        rated = None if params.prompt_logprobs is None else _cut(rated, params.prompt_logprobs)
    return Delta(
        text=sequence.echo + shown if begins else shown,
        token_ids=() if sampled is None else (sampled.token_id,),
        logprobs=logprobs,
        finish_reason=finish,
        prompt_tokens=sequence.num_prompt - sequence.num_virtual,
        completion_tokens=sequence.num_generated,
        prompt_logprobs=rated,
        cached_tokens=sequence.cached_prompt,
        queued_s=sequence.queued_s if begins else None,
    )


def _push(sequence: Sequence, token: int) -> tuple[str, FinishReason | None]:
    """The text that a token adds, and whether the answer ends with it."""
    stop, piece = sequence.stop, ""
    sequence.tokens.append(token)
    ended = token in sequence.stop_ids
    if not ended:
        piece = sequence.detokenizer.push(token)
    if sequence.grammar is not None:
        ended |= sequence.grammar.take(token)
    early = sequence.num_generated <= sequence.params.min_tokens  # no stop string may begin yet
    shown = piece if early else stop.push(piece)[0]
    finish: FinishReason | None = "length" if sequence.num_generated >= sequence.max_tokens else None
    if (finish or ended) and stop.stopped is None:
        shown += stop.push(sequence.detokenizer.flush())[0]
        if stop.stopped is None:
            shown += stop.flush()  # may itself end at a stop string that waited to be decided
    return shown, "stop" if ended or stop.stopped is not None else finish


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
        queued_s=sequence.queued_s,
    )


def _logprobs(sampled: Sampled, text: Text) -> tuple[TokenLogprob, ...]:
    if sampled.logprob is None:
        return ()
    return (text.token_logprob(sampled.token_id, sampled.logprob, sampled.top),)


def _cut(rated: Tokens[TokenLogprob], count: int) -> tuple[TokenLogprob, ...]:
    """With `count` alternatives each."""
    return tuple(one if len(one.top) <= count else replace(one, top=one.top[:count]) for one in rated)


def _fitted(rated: tuple[TokenLogprob, ...], echo: str) -> tuple[TokenLogprob, ...]:
    """Without the bytes that a tokenizer puts before a text by itself: a begin token's name, a space."""
    spelled, text = b"".join(bytes(one.bytes) for one in rated), echo.encode()
    extra = len(spelled) - len(text)
    if extra <= 0 or not spelled.endswith(text):
        return rated
    fitted = list(rated)
    for place, one in enumerate(rated):
        fitted[place] = replace(one, bytes=one.bytes[extra:])
        extra -= len(one.bytes)
        if extra <= 0:
            break
    return tuple(fitted)
