"""Truths: what each request of a soak must be answered with, as an engine answers that has nothing else to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import cycle, takewhile

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.grammar import Grammar
from graftwork.engine.request import Pooled, Pooling
from soak.drawer import Drawn
from support.engines import Answer, FolderSource, Named, ask, prompt_of, reading, request, running
from support.fixtures import Tiny
from support.scale import times

#: Longest answer, in tokens.
LONGEST = 5
#: Within one page of keys and values, up to its end so that the answer needs another, and over several.
LENGTHS = (3, 12, 60, 62, 63, 130)
#: In float32 two right runs differ by rounding: a token counts as certain when its likelihood leads by more than that.
LEAD = 1e-3


#: Languages whose answers come to an end soon, and what is in them.
LANGUAGES: dict[Grammar, Callable[[str], object]] = {
    Grammar("regex", "[A-F]{2}-[0-9]{1,3}"): lambda text: re.fullmatch("[A-F]{2}-[0-9]{1,3}", text),
    Grammar("choice", '["yes", "no", "é"]'): lambda text: text in ("yes", "no", "é"),
    Grammar("json", '{"type": "array", "items": {"enum": [1, "a"]}, "maxItems": 3}'): lambda text: (
        len(read := json.loads(text)) <= 3 and set(read) <= {1, "a"}
    ),
}
#: More tokens than any of their texts has, blanks aside.
MOST_BOUND = 40


@dataclass(frozen=True)
class Truth:
    """What becomes of one prompt; `certain` is how many of the answer's tokens do not hang on rounding.

    `bound` is the answer in the language of `grammar`.
    """

    prompt: tuple[int, ...]
    answer: Answer = field(default_factory=Answer)
    certain: int = 1
    vector: Pooled | None = None
    bound: Answer = field(default_factory=Answer)
    grammar: Grammar | None = None


#: By adapter (None is the base, several are a composition), for each of the soak's prompts.
Truths = Mapping[Named, tuple[Truth, ...]]


async def find_truths(tiny: Tiny, drawer: Mapping[str, Drawn], mixes: Iterable[Named]) -> Truths:
    """Ask for every prompt with every adapter, one after the other, each computed from its beginning."""
    found: dict[Named, tuple[Truth, ...]] = {}
    room = {"adapter_cache_bytes": 1 << 27, "kv_cache_bytes": 1 << 22, "prefix_caching": False}
    patience = {"load_timeout_s": 300.0, "grammar_timeout_s": 60.0}
    async with running(tiny, FolderSource(tiny.root), **room, **patience) as engine:
        for named in (None, *drawer, *mixes):
            drawn = drawer[named] if isinstance(named, str) else Drawn("", tiny.root)
            asked = zip(prompts(drawn.shown_by), cycle(LANGUAGES))
            found[named] = tuple([await _truth(engine, prompt, named, drawn, one) for prompt, one in asked])
    return found


def prompts(shown_by: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The soak's prompts, with what shows an adapter in their middle."""
    lengths = LENGTHS * times(1, 3)
    plain = [prompt_of(seed, length - len(shown_by)) for seed, length in enumerate(lengths)]
    return [(*one[: len(one) // 2], *shown_by, *one[len(one) // 2 :]) for one in plain]


async def _truth(engine: AsyncEngine, prompt: tuple[int, ...], named: Named, drawn: Drawn, grammar: Grammar) -> Truth:
    if drawn.ends_in is not None:
        return Truth(prompt)
    pooling: Pooling = "classes" if drawn.classifies else "mean"
    vector = await engine.pool(reading(prompt, named, pooling))
    if drawn.classifies:
        return Truth(prompt, vector=vector)
    answer = await ask(engine, request(prompt, named, max_tokens=LONGEST, logprobs=2, prompt_logprobs=0))
    leads = (one.top[0].logprob - one.top[1].logprob for one in answer.logprobs)
    certain = sum(1 for _ in takewhile(lambda lead: lead > LEAD, leads))
    bound = await ask(engine, replace(request(prompt, named, max_tokens=MOST_BOUND), grammar=grammar))
    assert speaks(grammar, bound)
    return Truth(prompt, answer, certain, vector, bound, grammar)


def speaks(grammar: Grammar, answer: Answer) -> bool:
    """Whether an answer is in a language of ours; JSON may be cut, for it may have blanks without end."""
    if answer.finish_reason == "length":
        return grammar.kind == "json" and len(answer.tokens) == MOST_BOUND
    return answer.finish_reason == "stop" and bool(LANGUAGES[grammar](answer.text))
