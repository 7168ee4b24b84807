"""Structured output on real engines: every constrained answer is in its language, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jsonschema_rs
import pytest

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.grammar import Grammar, GrammarKind
from graftwork.engine.grammar_masks import GrammarMasks
from graftwork.engine.grammars import Grammars
from graftwork.engine.request import Caller, GenerationRequest
from graftwork.engine.row_grammar import Mask, RowGrammar
from graftwork.errors import GenerationFailed, InvalidRequest
from support.engines import Named, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b c", "é"]}, "maxItems": 2},
        "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/leaf"}]},
    },
    "required": ["name", "age", "tags", "next"],
    "additionalProperties": False,
    "$defs": {"leaf": {"type": "object", "properties": {"n": {"enum": [1, 2.5]}}, "additionalProperties": False}},
}
PLATE = r"[A-Z]{2}-[0-9]{2,4}( é?)?"
#: Its first token is one item of a row of a million.
BLOWS_UP = 'start: ("a"{1000000}){1000000}'


@pytest.fixture(scope="module")
def engine(tiny: Tiny) -> Iterator[AsyncEngine]:
    with asyncio.Runner() as runner:
        opened = running(tiny)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


def constrained(kind: GrammarKind, source: object, adapter: Named = None, **params: Any) -> GenerationRequest:
    text = source if isinstance(source, str) else json.dumps(source)
    asked = request(prompt_of(1, 9), adapter, **({"temperature": 1.0, "max_tokens": 150, "logprobs": None} | params))
    return replace(asked, grammar=Grammar(kind, text))


async def test_every_answer_is_in_its_language(engine: AsyncEngine) -> None:
    seeds = range(10)
    adapters: list[Named] = [None, "a1", (("a1", 0.5), ("a2", 0.5))]
    rows = [constrained("json", PERSON, adapters[seed % 3], seed=seed) for seed in seeds]
    rows += [constrained("regex", PLATE, adapters[seed % 3], seed=seed) for seed in seeds]
    rows += [constrained("choice", ["yes", 'n"o', "é😀\n"], seed=seed) for seed in seeds]
    rows += [constrained("grammar", 'root ::= "x" [0-9]+ pair\npair ::= "(" [a-c] ")"', seed=seed) for seed in seeds]
    rows += [constrained("grammar", 'start: "(" (start | "1" | /[a-f]{2}/) ")"', seed=seed) for seed in seeds]
    answers = await ask_all(engine, rows)
    schema = jsonschema_rs.validator_for(PERSON)
    checks: list[Callable[[str], object]] = [
        lambda text: schema.is_valid(json.loads(text)),
        lambda text: re.fullmatch(PLATE, text),
        lambda text: text in ("yes", 'n"o', "é😀\n"),
        lambda text: re.fullmatch(r"x[0-9]+\([a-c]\)", text),
        lambda text: re.fullmatch(r"(\(+)(1|[a-f]{2})(\)+)", text) and text.count("(") == text.count(")"),
    ]
    for kind, check in enumerate(checks):
        texts = [answer.text for answer in answers[kind * 10 : kind * 10 + 10]]
        assert [text for text in texts if not check(text)] == [], kind
        assert len(set(texts)) > 2, "the model still chooses"
    assert {answer.finish_reason for answer in answers} == {"stop"}, "what can follow is nothing, or an end was chosen"


async def test_a_schema_a_regex_and_the_base_in_one_batch(engine: AsyncEngine) -> None:
    def rows() -> list[GenerationRequest]:
        return [
            request(prompt_of(2, 11), temperature=0.9, seed=1, max_tokens=60),
            constrained("json", PERSON, "a1", seed=2),
            constrained("regex", PLATE, "a2", seed=3, logprobs=2),
            request(prompt_of(3, 8), "a1", max_tokens=60),
        ]

    alone = [await ask(engine, row) for row in rows()]
    together = await ask_all(engine, rows())
    for one, other in zip(alone, together, strict=True):
        assert (one.tokens, one.text, one.finish_reason) == (other.tokens, other.text, other.finish_reason)
        assert one.chosen == pytest.approx(other.chosen, abs=1e-4)
    assert jsonschema_rs.is_valid(PERSON, json.loads(together[1].text))
    assert re.fullmatch(PLATE, together[2].text)


async def test_log_probabilities_are_those_of_the_model_alone(engine: AsyncEngine) -> None:
    free = await ask(engine, request(prompt_of(1, 9), logprobs=5, max_tokens=1))
    bound = await ask(engine, constrained("choice", ["yes", "no"], temperature=0, logprobs=5))
    for one, other in zip(bound.logprobs[0].top, free.logprobs[0].top, strict=True):
        assert one.token_id == other.token_id and one.logprob == pytest.approx(other.logprob, abs=1e-5)


async def test_length_ends_what_is_not_complete_and_an_end_token_only_what_is(engine: AsyncEngine) -> None:
    cut, whole, least, endless = await ask_all(
        engine,
        [
            constrained("regex", "[ab]{20}", max_tokens=7),
            constrained("regex", "[ab]{20}", max_tokens=20),
            constrained("regex", "[ab]*", min_tokens=9, seed=1),
            constrained("regex", "[ab]*", ignore_eos=True, seed=2, logit_bias=((0, 100.0),)),
        ],
    )
    assert (cut.finish_reason, len(cut.text)) == ("length", 7)
    assert (whole.finish_reason, len(whole.text)) == ("stop", 20)
    assert least.finish_reason == "stop" and len(least.text) >= 9
    assert (endless.finish_reason, endless.text) == ("stop", ""), "an end is an end where there is a grammar"


async def test_bias_and_penalties_choose_among_what_is_allowed(engine: AsyncEngine) -> None:
    letters = {one: index for index, one in enumerate("abcdefgh", start=64)}
    liked, avoided, various = await ask_all(
        engine,
        [
            constrained("regex", "[a-h]{12}", logit_bias=((letters["c"], 100.0), (200, 100.0))),
            constrained("regex", "[ab]{12}", logit_bias=((letters["a"], -100.0),)),
            constrained("regex", "[a-h]{8}", temperature=0, frequency_penalty=2.0, repetition_penalty=2.0),
        ],
    )
    assert (liked.text, avoided.text) == ("c" * 12, "b" * 12)
    assert len(set(various.text)) > 2


async def test_a_row_that_nothing_is_left_for_fails_alone(engine: AsyncEngine) -> None:
    letter_a = 64
    good = constrained("regex", PLATE, seed=4)
    want = await ask(engine, replace(good, id="alone"))
    bad = constrained("regex", "a+", stop_token_ids=(letter_a,), min_tokens=3)
    failed, answer = await asyncio.gather(ask(engine, bad), ask(engine, good), return_exceptions=True)
    assert isinstance(failed, GenerationFailed) and "No token can be chosen" in failed.message
    assert not isinstance(answer, BaseException) and answer.tokens == want.tokens


async def test_a_grammar_that_blows_up_midway_fails_its_row_only(engine: AsyncEngine) -> None:
    rows = [constrained("grammar", BLOWS_UP), constrained("json", PERSON, "a1", seed=5), request(prompt_of(2, 7))]
    want = [await ask(engine, replace(row, id=f"{row.id} alone")) for row in rows[1:]]
    failed, *others = await asyncio.gather(*(ask(engine, row) for row in rows), return_exceptions=True)
    assert isinstance(failed, InvalidRequest) and failed.field == "structured_outputs"
    assert failed.message.startswith("structured_outputs cannot be followed to the end: it became too complex")
    assert [one.tokens for one in others if not isinstance(one, BaseException)] == [one.tokens for one in want]


async def test_a_tenant_whose_grammars_never_end_delays_no_other_tenants(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, held = threading.Event(), list[str]()
    plain = Grammars._try

    def trying(self: Grammars, grammar: Grammar) -> tuple[str, int]:
        if grammar.source.startswith("hostile"):
            held.append(grammar.source)
            gate.wait(60)
        return plain(self, grammar)

    monkeypatch.setattr(Grammars, "_try", trying)
    rows = [constrained("regex", f"hostile{n}") for n in range(12)]
    stuck = [asyncio.create_task(ask(engine, replace(row, caller=Caller("hostile")))) for row in rows]
    try:
        while len(held) < 2:
            await asyncio.sleep(0.001)
        new = [replace(constrained("regex", f"honest{n}"), caller=Caller("honest")) for n in range(3)]
        assert [(await ask(engine, row)).text for row in new] == ["honest0", "honest1", "honest2"]
        assert held == ["hostile0", "hostile1"] and not any(one.done() for one in stuck)
    finally:
        gate.set()
        answers = await asyncio.gather(*stuck)
    assert [answer.text for answer in answers] == [f"hostile{n}" for n in range(12)]


async def test_preempted_rows_stay_where_they_were_in_their_grammar(tiny: Tiny, engine: AsyncEngine) -> None:
    made = [constrained("regex", "([a-f][0-9]){70}", ("a1", None)[seed % 2], seed=seed) for seed in range(5)]
    rows = [replace(row, prompt=prompt_of(seed, 60)) for seed, row in enumerate(made)]
    want = [await ask(engine, replace(row, id=f"{row.id} alone")) for row in rows]
    async with running(tiny, kv_cache_bytes=1 << 20, max_model_len=256) as small:
        await ask_all(small, [replace(row, id=f"{row.id} first", prompt=prompt_of(90, 9)) for row in rows[:2]])
        got = await ask_all(small, rows)
        assert small.stats().preemptions > 0
    assert [one.tokens for one in got] == [one.tokens for one in want]


async def test_rows_without_a_grammar_cost_nothing(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = RowGrammar.mask

    def mask(self: RowGrammar) -> Mask:
        asked.append(1)
        return plain(self)

    monkeypatch.setattr(RowGrammar, "mask", mask)
    before = _threads()
    async with running(tiny) as engine:
        await ask_all(engine, [request(prompt_of(seed, 9), ("a1", None)[seed % 2]) for seed in range(4)])
        assert not asked and _threads() == before
        await ask_all(engine, [constrained("regex", "[ab]{5}"), request(prompt_of(1, 9))])
        assert len(asked) == 5 + 1, "once for each of its tokens, and once when it was prepared"


def test_masks_are_found_for_those_who_have_a_grammar() -> None:
    masks = GrammarMasks()
    assert masks.begin([]).result() == {}
    masks.close()


def _threads() -> int:
    names = [thread.name for thread in threading.enumerate()]
    return sum(name.startswith(("graftwork-mask", "graftwork-grammar")) for name in names)
