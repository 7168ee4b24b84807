"""What requests ask of their answers' form: prepared, refused with a reason, kept, and never mixed up."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tokenizers import decoders

from graftwork.adapters.companions.companions import Companions
from graftwork.adapters.companions.tokenizer_additions import AddedToken as Added
from graftwork.engine import grammars as module
from graftwork.engine.grammar import MAX_GRAMMAR_BYTES, Grammar, GrammarKind
from graftwork.engine.grammars import Grammars, _Unusable
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.row_grammar import RowGrammar
from graftwork.engine.text import Text
from graftwork.errors import InvalidRequest, TooManyRequests, Unavailable
from support.tiny import byte_tokenizer

TENANT = "local"


def _chain(length: int) -> str:
    return "start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(length)) + f'r{length}: "a"'


def _references(length: int) -> dict[str, Any]:
    links = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {}}}


NASTY: dict[str, tuple[GrammarKind, Any, str]] = {
    "no JSON": ("json", "{", "EOF"),
    "no schema": ("json", [1], "object"),
    "unknown type": ("json", {"type": "nul"}, "nul"),
    "unsupported keyword": ("json", {"type": "object", "not": {"type": "null"}}, "not"),
    "nothing fits": ("json", {"type": "integer", "minimum": 5, "maximum": 3}, "Unsatisfiable"),
    "remote reference": ("json", {"$ref": "http://127.0.0.1:1/schema.json"}, "does not fetch"),
    "file reference": ("json", {"$ref": "file:///etc/passwd"}, "does not fetch"),
    "missing reference": ("json", {"$ref": "#/$defs/nobody"}, "nobody"),
    "refers to itself": ("json", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "no text matches"),
    "chain of references": ("json", _references(6000), "nested too deeply"),
    "deep": ("json", '{"items":' * 5000 + "{}" + "}" * 5000, "recursion"),
    "five thousand properties": ("json", {"type": "object", "properties": {f"p{n}": {} for n in range(5000)}}, "too "),
    "gigabytes": ("json", {"type": "integer", "multipleOf": 50_000_017}, "more than"),
    "a megabyte": ("json", {"const": "x" * (1 << 20)}, f"at most {MAX_GRAMMAR_BYTES}"),
    "not a regex": ("regex", "(a", "unclosed"),
    "look-around": ("regex", "(?=a)b", "look-around"),
    "back-reference": ("regex", r"(a)\1", "backreference"),
    "regex of nothing": ("regex", r"[^\s\S]", "no text matches"),
    "deep regex": ("regex", "(" * 20000 + "a" + ")" * 20000, "cannot be used"),
    "chain of rules": ("grammar", _chain(9000), "nested too deeply"),
    "unknown rule": ("grammar", "start: nobody", "nobody"),
    "no start": ("grammar", 'begin: "a"', "start"),
    "bad GBNF": ("grammar", 'root ::= "a', "cannot be used"),
}


@pytest.fixture(scope="module")
def grammars() -> Iterator[Grammars]:
    made = Grammars(ProcessLimits(4.0))
    yield made
    made.close()


@pytest.fixture(scope="module")
def text() -> Text:
    return Text(byte_tokenizer(), vocab_size=256, stop_ids=frozenset({0}))


def allowed(row: RowGrammar) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.mask().view(np.uint8), bitorder="little")).tolist())


def ids(text: Text, content: str) -> list[int]:
    return list(text.encode(content))


@pytest.mark.parametrize("name", NASTY)
async def test_what_cannot_be_used_is_said_by_its_field_and_soon(grammars: Grammars, text: Text, name: str) -> None:
    kind, source, words = NASTY[name]
    field = "response_format.json_schema.schema"
    made = Grammar(kind, source if isinstance(source, str) else json.dumps(source), field)
    with pytest.raises(InvalidRequest, match=re.escape(words)) as caught:
        await asyncio.wait_for(grammars.row(made, text, TENANT), 60)
    assert caught.value.field == field and caught.value.message.startswith(f"{field} ")
    assert len(caught.value.message) < 500


async def test_a_row_goes_through_its_grammar_and_other_rows_begin_anew(grammars: Grammars, text: Text) -> None:
    asked = Grammar("regex", "ab?")
    first = await grammars.row(asked, text, TENANT)
    a, b = ids(text, "ab")
    assert allowed(first) == {a}
    assert not first.take(a) and allowed(first) == {b, 0}, "an end where it may end"
    second = await grammars.row(asked, text, TENANT)
    assert allowed(second) == {a}
    assert first.take(b), "nothing can follow"
    assert second.problem is None


async def test_one_of_thousands_of_choices(grammars: Grammars, text: Text) -> None:
    row = await grammars.row(Grammar("choice", json.dumps([f"case-{number}" for number in range(5000)])), text, TENANT)
    *most, last = ids(text, "case-4999")
    assert not any(row.take(token) for token in most) and row.take(last)
    assert row.problem is None


async def test_one_is_prepared_once_for_all_and_kept(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    plain = Grammars._try

    def trying(self: Grammars, grammar: Grammar) -> tuple[str, int]:
        tried.append(grammar.source)
        return plain(self, grammar)

    monkeypatch.setattr(Grammars, "_try", trying)
    made = Grammars(ProcessLimits(20.0))
    try:
        rows = await asyncio.gather(*(made.row(Grammar("regex", "a{3}"), text, TENANT) for _ in range(30)))
        assert tried == ["a{3}"] and len({id(row) for row in rows}) == 30
        await made.row(Grammar("choice", '["a{3}"]'), text, TENANT)
        await made.row(Grammar("choice", '["a{3}"]', "another field"), text, TENANT)
        assert tried == ["a{3}", '["a{3}"]'], "of another kind it is another grammar"
    finally:
        made.close()


async def test_what_failed_is_answered_at_once_for_a_while(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same words, whoever asks, by whatever field; and then it is tried once more."""
    now, tried = [100.0], list[str]()

    def trying(one: Grammar) -> tuple[str, int]:
        tried.append(one.source)
        raise _Unusable("of itself.")

    made = Grammars(ProcessLimits(), clock=lambda: now[0])
    monkeypatch.setattr(made, "_try", trying)
    monkeypatch.setattr(module, "_MOST", 2)
    try:
        for tenant, field in (("a", "one"), ("b", "other"), ("a", "one")):
            with pytest.raises(InvalidRequest, match=f"{field} cannot be used: of itself") as caught:
                await made.row(Grammar("regex", "x", field), text, tenant)
            assert caught.value.field == field
        assert tried == ["x"]
        now[0] += 60
        for source in ("x", "y", "z", "z", "x"):
            with pytest.raises(InvalidRequest):
                await made.row(Grammar("regex", source), text, "a")
        assert tried == ["x", "x", "y", "z", "x"], "only so many are remembered"
        assert len(made._failed) == 2
    finally:
        made.close()


async def test_what_nobody_waits_for_any_more_is_not_begun(
    text: Text, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gate, tried = threading.Event(), list[str]()

    def trying(one: Grammar) -> tuple[str, int]:
        tried.append(one.source)
        gate.wait(20)
        raise _Unusable("of itself.")

    made = Grammars(ProcessLimits(20.0))
    monkeypatch.setattr(made, "_try", trying)
    try:
        gone = [asyncio.create_task(made.row(Grammar("regex", f"a{{{n}}}"), text, TENANT)) for n in range(30)]
        stays = asyncio.create_task(made.row(Grammar("regex", "a{29}"), text, TENANT))
        while len(tried) < 2 or len(made._kept) < 30:
            await asyncio.sleep(0.001)
        begun = set(tried)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        gate.set()
        with pytest.raises(InvalidRequest, match="of itself"):
            await stays
        assert set(tried) == begun | {"a{29}"}
        async with asyncio.timeout(20):
            while made._kept:  # the other thread may end a moment later
                await asyncio.sleep(0.001)
    finally:
        made.close()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_what_was_used_the_longest_ago_leaves_when_there_is_no_room(
    text: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Grammars(ProcessLimits(20.0), room_bytes=1 << 20)
    monkeypatch.setattr(made, "_try", lambda one: (f"start: /{one.source}/", 400_000))
    try:
        for source in ("a", "b", "a", "c", "d"):
            await made.row(Grammar("regex", source), text, TENANT)
            assert made.num_bytes <= 1 << 20
        assert [digest for _, digest in made._kept] == [_digest("c"), _digest("d")]
        monkeypatch.setattr(module, "_MOST", 1)
        await made.row(Grammar("regex", "e"), text, TENANT)
        assert len(made._kept) <= 2
    finally:
        made.close()


def _digest(source: str) -> str:
    return module.digest_of(Grammar("regex", source))


async def test_each_vocabulary_has_its_own(grammars: Grammars, text: Text) -> None:
    """T61: the same grammar for the base, an adapter with tokens of its own, and one with a stop token of its own."""
    own = text.with_companions(Companions(added_tokens=(_added("<b>", 257), _added("<tool>", 256, special=True))))
    stops = text.with_companions(Companions(stop_ids=(ids(text, "z")[0],)))
    same = text.with_companions(Companions())
    asked = Grammar("regex", "(<b>|<tool>)?")
    begin = ids(text, "<")[0]
    assert allowed(await grammars.row(asked, text, TENANT)) == {begin, 0}
    assert allowed(await grammars.row(asked, own, TENANT)) == {begin, 257, 0}, "a special token is no text"
    assert allowed(await grammars.row(asked, stops, TENANT)) == {begin, 0, ids(text, "z")[0]}
    assert same.vocabulary() == text.vocabulary() != own.vocabulary()
    again = text.with_companions(Companions(added_tokens=(_added("<b>", 257), _added("<tool>", 256, special=True))))
    assert again.vocabulary() == own.vocabulary(), "equal tokenizers are one"
    row = await grammars.row(asked, own, TENANT)
    assert row.take(257)


def _added(content: str, token_id: int, *, special: bool = False) -> Added:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return Added(id=token_id, content=content, special=special, **flags)


async def test_a_tokenizer_that_cannot_be_followed_is_said(grammars: Grammars) -> None:
    pieces = byte_tokenizer()
    pieces.backend_tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(InvalidRequest, match="this model's tokenizer cannot be followed: its tokens"):
        own = Text(pieces, vocab_size=256, stop_ids=frozenset({0}))
        await grammars.row(Grammar("regex", "a"), own, TENANT)


async def test_a_tenant_whose_grammars_never_end_delays_no_other(text: Text, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = threading.Event(), list[str]()
    plain = Grammars._try

    def trying(self: Grammars, grammar: Grammar) -> tuple[str, int]:
        begun.append(grammar.source)
        if grammar.source.startswith("hostile"):
            gate.wait(60)
        return plain(self, grammar)

    monkeypatch.setattr(Grammars, "_try", trying)
    monkeypatch.setattr(module, "MOST_WAITING", 12)
    made = Grammars(ProcessLimits(20.0))
    try:
        hostile = [Grammar("regex", f"hostile{number}") for number in range(14)]
        stuck = [asyncio.ensure_future(made.row(one, text, "hostile")) for one in hostile]
        while len(begun) < 2 or len(made._kept) < 14:
            await asyncio.sleep(0.001)
        for number in range(3):
            await made.row(Grammar("regex", f"honest{number}"), text, "honest")
        assert begun[:2] == ["hostile0", "hostile1"] and begun[2:] == ["honest0", "honest1", "honest2"]
        with pytest.raises(TooManyRequests, match="12 grammars of your requests wait") as caught:
            await made.row(Grammar("regex", "one more"), text, "hostile")
        assert caught.value.retry_after_s == 21, "by then one of them has ended"
        assert not any(one.done() for one in stuck)
        gate.set()
        await asyncio.gather(*stuck)
    finally:
        gate.set()
        made.close()


async def test_closing_tells_whoever_waits_and_ends_the_processes(text: Text) -> None:
    made = Grammars(ProcessLimits(60.0, 4 << 30))
    asked = Grammar("json", json.dumps({"type": "integer", "multipleOf": 50_000_017}))  # it would take half a minute
    stuck = asyncio.ensure_future(made.row(asked, text, TENANT))
    while not any(process._process for process in made._processes):
        await asyncio.sleep(0.001)
    began = time.monotonic()
    await asyncio.to_thread(made.close)
    assert time.monotonic() - began < 10
    with pytest.raises(Unavailable):
        await stuck
    with pytest.raises(Unavailable):
        await made.row(Grammar("regex", "a"), text, TENANT)
