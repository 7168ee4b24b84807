"""An echo and the answer behind it are one text, which the bytes of their tokens spell."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, processors
from transformers import PreTrainedTokenizerFast

from graftwork.engine.answer import advance
from graftwork.engine.request import Delta
from graftwork.engine.sampler import Sampled
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.sequence import Sequence
from graftwork.engine.stop import StopMatcher
from graftwork.engine.text import Text

THE = 256


@pytest.fixture(scope="module")
def text() -> Text:
    """As Llama 2 has it: a text gets a begin token and a space, and loses that space when it is decoded."""
    tokens = [f"<0x{byte:02X}>" for byte in range(256)] + ["▁the", "▁", "the", "<s>"]
    tokenizer = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, [], byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    tokenizer.add_special_tokens([AddedToken("<s>", special=True, normalized=False)])
    begin = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", begin)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")
    return Text(fast, vocab_size=len(tokens), stop_ids=frozenset())


def first(text: Text, prompt: str | tuple[int, ...], sampled: Sampled | None, **params: object) -> Delta:
    """The first delta after a prompt that was rated."""
    tokens = list(text.encode(prompt))
    asked = SamplingParams(**({"echo": True, "logprobs": 0} | params))  # type: ignore[arg-type]
    row = Sequence(
        "r", tokens, len(tokens), asked, 0, 4, frozenset(), None, text.detokenizer(tokens), StopMatcher(()), text
    )
    row.echo = text.echo(prompt, tokens)
    row.rated = [text.token_logprob(token, -1.0, ((5, -0.5), (6, -0.7)), 3) for token in tokens[1:]]
    return advance(row, sampled)


@pytest.mark.parametrize("prompt", ["naïve", " two spaces", "x", "日本"])
def test_what_a_tokenizer_adds_is_no_part_of_an_echoed_text(text: Text, prompt: str) -> None:
    delta = first(text, prompt, Sampled(THE, -2.0))
    assert delta.text == f"{prompt} the"
    assert b"".join(bytes(one.bytes) for one in delta.logprobs).decode() == delta.text
    assert [one.token for one in delta.logprobs[:2]] == ["<s>", " "]
    assert (delta.logprobs[0].logprob, delta.logprobs[-1].logprob) == (None, -2.0)


def test_token_ids_are_echoed_with_their_special_tokens(text: Text) -> None:
    begin = text.encode("x")[0]
    delta = first(text, (begin, 0x61, begin, 0x62), Sampled(THE, -2.0))
    assert delta.text == "<s>a<s>b the"
    assert b"".join(bytes(one.bytes) for one in delta.logprobs).decode() == delta.text


def test_each_asker_gets_as_many_alternatives_as_it_asked_for(text: Text) -> None:
    delta = first(text, "abc", None, logprobs=1, prompt_logprobs=2, max_tokens=0)
    assert (delta.text, delta.finish_reason, delta.token_ids, delta.completion_tokens) == ("abc", "length", (), 0)
    assert {len(one.top) for one in delta.logprobs[1:]} == {1}
    assert delta.prompt_logprobs is not None and {len(one.top) for one in delta.prompt_logprobs[1:]} == {2}
    assert {one.rank for one in delta.prompt_logprobs[1:]} == {3}
    none = first(text, "abc", Sampled(THE, -2.0), logprobs=None, prompt_logprobs=0)
    assert (none.text, [one.token_id for one in none.logprobs]) == ("abc the", [THE])


def test_only_the_first_delta_carries_the_prompt(text: Text) -> None:
    tokens = list(text.encode("ab"))
    asked = SamplingParams(echo=True, prompt_logprobs=0)
    row = Sequence(
        "r", tokens, len(tokens), asked, 0, 4, frozenset(), None, text.detokenizer(tokens), StopMatcher(()), text
    )
    row.echo = "ab"
    deltas = [advance(row, Sampled(THE)) for _ in range(2)]
    assert [delta.text for delta in deltas] == ["ab the", " the"]
    assert deltas[0].prompt_logprobs is not None and deltas[1].prompt_logprobs is None
