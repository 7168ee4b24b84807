"""An adapter's own words in the engine: its template, its tokens, its stops, for its rows and no others."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
import warnings
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from graftwork.adapters.companions.companions import NO_COMPANIONS
from graftwork.engine.adapter_texts import AdapterText, AdapterTexts
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.load_failures import LoadFailures
from graftwork.engine.request import AdapterHandle, ChatPrompt, GenerationRequest
from graftwork.engine.text import Text
from graftwork.errors import Damaged, InvalidRequest, Refused
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.engines import FolderSource, ask, ask_all, prompt_of, reading, request, running
from support.fixtures import Tiny
from support.tiny import byte_tokenizer, make_adapter, make_base

OWN = "{{ '<system>Be brief.\n' }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{{ '<a>' }}"
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
HELLO = ChatPrompt(({"role": "user", "content": "Hello"},))


def write(folder: Path, **files: Any) -> None:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A base without a chat template whose embedding has eight rows more than its tokenizer has tokens."""
    root = tmp_path_factory.mktemp("roomy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' and peft's own
        base = make_base(root / "base", vocab_size=264, chat=False)
        for number in range(3):
            make_adapter(base, root / f"a{number}", seed=number + 1, std=0.08)
    for name in ("own", "loops", "refuses", "tokens", "gap", "stops"):
        shutil.copytree(root / "a1", root / name)
    write(root / "own", chat_template__jinja=OWN)
    write(root / "loops", chat_template__jinja=LOOP)
    write(root / "refuses", chat_template__jinja="{{ raise_exception('only cats may speak') }}")
    extended = byte_tokenizer()
    extended.add_special_tokens({"extra_special_tokens": ["<tool>"]})
    extended.add_tokens([AddedToken("<b>", special=False), AddedToken("<c>", special=False)])
    extended.save_pretrained(root / "tokens")
    write(root / "gap", added_tokens__json={"<x>": 260, "<y>": 263})
    settings = Settings(
        home=root / "home", base=str(base), dtype="float32", kv_cache_bytes=1 << 22, adapter_cache_bytes=1 << 24,
        template_timeout_s=0.5,
    )  # fmt: skip
    return Tiny(root, settings, prepare_base(settings))


@pytest.fixture
async def engine(roomy: Tiny) -> AsyncIterator[AsyncEngine]:
    async with running(roomy) as made:
        yield made


def without(asked: GenerationRequest) -> GenerationRequest:
    return replace(asked, companions=False)


def ids(text: str) -> tuple[int, ...]:
    return tuple(byte_tokenizer().encode(text, add_special_tokens=False))


async def words_of(engine: AsyncEngine, name: str) -> AdapterText:
    texts = engine._intake._texts
    assert texts is not None, "companions are used"
    return await texts.of(AdapterHandle(name, "local", f"{name}:1.0.0"))


async def test_an_adapter_brings_the_template_that_its_base_lacks(engine: AsyncEngine) -> None:
    own = await ask(engine, request(HELLO, "own"))
    plain = await ask(engine, request(ids("<system>Be brief.\n<user>Hello<a>"), "own"))
    assert (own.tokens, own.prompt_tokens) == (plain.tokens, plain.prompt_tokens)
    for refused in (request(HELLO), request(HELLO, "a1"), without(request(HELLO, "own"))):
        with pytest.raises(InvalidRequest, match="no chat template"):
            await ask(engine, refused)


async def test_a_plain_prompt_goes_through_no_template(engine: AsyncEngine) -> None:
    answers = await ask_all(
        engine, [request("Hello", "own"), without(request("Hello", "own")), request(ids("Hello"), "own")]
    )
    assert len({tuple(answer.tokens) for answer in answers}) == 1
    assert answers[0].prompt_tokens == 5


async def test_templates_are_rendered_as_transformers_renders_them(engine: AsyncEngine) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = OWN
    want = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], tokenize=False, add_generation_prompt=True
    )
    assert (await ask(engine, request(HELLO, "own"))).prompt_tokens == len(ids(want))


@pytest.mark.alone
async def test_a_template_that_fails_or_hangs_fails_its_own_requests_and_delays_no_other(engine: AsyncEngine) -> None:
    await ask_all(engine, [request(HELLO, "own"), request(prompt_of(1, 9), "loops"), request(prompt_of(1, 9))])
    stuck = [asyncio.ensure_future(ask(engine, request(HELLO, "loops"))) for _ in range(6)]
    await asyncio.sleep(0)
    began = time.monotonic()
    rows = [request(HELLO, "own"), request(prompt_of(1, 9)), request(prompt_of(1, 9), "loops")]
    for answer in await ask_all(engine, rows):
        assert answer.finish_reason == "length"
    assert time.monotonic() - began < 3.0  # the time of all that hang, one after another
    assert not all(one.done() for one in stuck)
    for outcome in await asyncio.gather(*stuck, return_exceptions=True):
        assert isinstance(outcome, InvalidRequest) and "0.5 s" in outcome.message and outcome.field == "messages"
    with pytest.raises(InvalidRequest, match="only cats may speak"):
        await ask(engine, request(HELLO, "refuses"))


async def test_added_tokens_are_read_and_written_for_their_adapter_alone(engine: AsyncEngine, roomy: Tiny) -> None:
    rows = [request("x<tool>y<c>", "tokens"), request("x<tool>y<c>"), request("x<tool>y<c>", "a1"),
            without(request("x<tool>y<c>", "tokens"))]  # fmt: skip
    lengths = [answer.prompt_tokens for answer in await ask_all(engine, rows)]
    assert lengths == [4, 11, 11, 11]
    exact = await ask(engine, request((*ids("x"), 256, *ids("y"), 258), "tokens"))
    assert exact.tokens == (await ask(engine, rows[0])).tokens
    loaded = await words_of(engine, "tokens")
    detokenizer = loaded.text.detokenizer()
    assert [detokenizer.push(number) for number in (256, 257, 258, *ids("é"))] == ["", "<b>", "<c>", "", "é"]
    assert loaded.text.token_text(256) == "<tool>"
    base = Text.open(roomy.base.folder).detokenizer()
    assert [base.push(number) for number in (256, 257, 258)] == ["", "", ""]


async def test_embeddings_read_added_tokens_too_and_compositions_have_the_words_of_the_base(
    engine: AsyncEngine,
) -> None:
    own = reading("x<tool>y<c>", "tokens")
    asked = [own, replace(own, id="base", companions=False), reading("x<tool>y<c>", (("tokens", 0.5), ("a1", 0.5)))]
    made = await asyncio.gather(*(engine.pool(one) for one in asked))
    assert [one.prompt_tokens for one in made] == [4, 11, 11]
    by_ids = await engine.pool(reading((*ids("x"), 256, *ids("y"), 258), "tokens"))
    assert by_ids.values == pytest.approx(made[0].values, abs=1e-4)
    together = AdapterHandle("both", "local", "both", ((AdapterHandle("own", "local", "own:1.0.0"), 0.5),))
    assert await engine.companions(together) == NO_COMPANIONS


async def test_added_tokens_keep_ids_that_leave_a_gap(engine: AsyncEngine) -> None:
    text = (await words_of(engine, "gap")).text
    assert text.encode("a<y>b<x>") == (*ids("a"), 263, *ids("b"), 260)
    assert text.encode("every other byte: é") == ids("every other byte: é")


async def test_ids_beyond_the_vocabulary_are_refused(engine: AsyncEngine) -> None:
    for adapter in (None, "tokens", "a1"):
        with pytest.raises(InvalidRequest, match="264"):
            await ask(engine, request((1, 264), adapter))


async def test_stop_tokens_are_the_adapters_and_the_bases(roomy: Tiny) -> None:
    async with running(roomy) as engine:
        whole = await ask(engine, request(prompt_of(3, 20), "a1", ignore_eos=True))
    stop, place = whole.tokens[3], whole.tokens.index(whole.tokens[3])
    write(roomy.root / "stops", generation_config__json={"eos_token_id": [stop], "max_new_tokens": 9})
    asked = request(prompt_of(3, 20), "stops", ignore_eos=False)
    async with running(roomy) as engine:
        ended, on = await ask_all(engine, [asked, without(request(prompt_of(3, 20), "stops", ignore_eos=False))])
        assert (ended.tokens, ended.finish_reason) == (whole.tokens[: place + 1], "stop")
        assert on.tokens == whole.tokens[: len(on.tokens)] and len(on.tokens) > len(ended.tokens)
        past = await ask(engine, request(prompt_of(3, 20), "stops", max_tokens=None))
        assert (past.tokens, past.finish_reason) == (
            whole.tokens[:9],
            "length",
        )  # max_new_tokens, where nothing is asked
        text = (await words_of(engine, "stops")).text
        assert text.stop_ids == {0, stop}


async def test_a_default_limit_is_cut_to_the_context(roomy: Tiny) -> None:
    write(roomy.root / "stops", generation_config__json={"max_new_tokens": 100_000})
    async with running(roomy, max_model_len=32) as engine:
        assert (await ask(engine, request(prompt_of(3, 20), "stops", max_tokens=None))).completion_tokens == 12


async def test_the_usual_length_gives_way_to_the_adapters_and_to_the_context(roomy: Tiny) -> None:
    write(roomy.root / "stops", generation_config__json={"max_new_tokens": 5})
    async with running(roomy, max_model_len=32) as engine:
        for name, length, count in (("a1", 8, 16), ("a1", 28, 4), ("stops", 8, 5)):
            asked = replace(request(prompt_of(3, length), name, max_tokens=None), usual_tokens=16)
            assert (await ask(engine, asked)).completion_tokens == count


async def test_a_server_may_leave_companions_aside(roomy: Tiny) -> None:
    async with running(roomy, adapter_companions=False) as engine:
        with pytest.raises(InvalidRequest, match="no chat template"):
            await ask(engine, request(HELLO, "own"))
        assert await engine.companions(AdapterHandle("own", "local", "own:1.0.0")) == NO_COMPANIONS


async def test_companions_that_cannot_be_used_are_refused_and_nothing_is_kept(roomy: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(roomy.root / "a1", tmp_path / "bad"))
    write(folder, generation_config__json={"temperature": "hot"})
    async with running(roomy, FolderSource(tmp_path)) as engine:
        with pytest.raises(Refused) as caught:
            await ask(engine, request(prompt_of(1, 8), "bad"))
        assert "temperature" in " ".join(caught.value.problems)
        assert engine.stats().adapters_resident == 0
        write(folder, generation_config__json={"temperature": 0.5})
        assert (await ask(engine, request(prompt_of(1, 8), "bad"))).finish_reason == "length"
        assert (await engine.companions(AdapterHandle("bad", "local", "bad:1.0.0"))).defaults.temperature == 0.5


@dataclass
class _Held(FolderSource):
    """Gives nothing before its gate is open."""

    gate: threading.Event = field(default_factory=threading.Event)

    def folder(self, tenant: str, digest: str) -> Path:
        self.gate.wait(5)
        return super().folder(tenant, digest)


async def test_many_who_wait_read_a_folder_once_and_a_failure_is_not_kept(roomy: Tiny) -> None:
    source = _Held(roomy.root, failure=Damaged("the blob is damaged"))
    texts = AdapterTexts(source, roomy.outline, Text.open(roomy.base.folder), 10.0, 0, LoadFailures(0))
    handle = AdapterHandle("own", "local", "own:1.0.0")
    waiting = [asyncio.ensure_future(texts.of(handle)) for _ in range(20)]
    await asyncio.sleep(0)  # all of them have joined before the first can fail
    source.gate.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(one, Damaged) for one in outcomes) and source.reads == ["own"]
    source.failure = None
    made = await asyncio.gather(*(texts.of(handle) for _ in range(20)))
    assert len({id(one) for one in made}) == 1 and source.reads == ["own", "own"]
    texts.close()


async def test_an_adapter_without_tokens_of_its_own_shares_the_bases_tokenizer(roomy: Tiny) -> None:
    base = Text.open(roomy.base.folder)
    texts = AdapterTexts(FolderSource(roomy.root), roomy.outline, base, 10.0, 0, LoadFailures(0))
    kept = [(await texts.of(AdapterHandle(name, "local", name))).text for name in ("a1", "own", "tokens")]
    assert [text._backend is base._backend for text in kept] == [True, True, False]
    texts.close()


async def test_only_so_many_texts_are_kept(roomy: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.engine.adapter_texts._ROOM", 2)
    source = FolderSource(roomy.root)
    texts = AdapterTexts(source, roomy.outline, Text.open(roomy.base.folder), 10.0, 0, LoadFailures(0))
    for name in ("a0", "a1", "a0", "own", "a0", "a1"):
        await texts.of(AdapterHandle(name, "local", name))
    assert source.reads == ["a0", "a1", "own", "a1"]
    texts.close()


async def test_the_bases_own_template_needs_no_process(tiny: Tiny, tmp_path: Path) -> None:
    """As trainers save it beside the adapter: nothing differs, so nothing runs elsewhere."""
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "same"))
    byte_tokenizer().save_pretrained(folder)
    async with running(tiny, FolderSource(tmp_path)) as engine:
        answer = await ask(engine, request(HELLO, "same"))
        assert answer.prompt_tokens == len(ids("<user>Hello\n<assistant>"))
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("graftwork-template")]


async def test_requests_that_leave_while_a_template_runs_hold_nothing(engine: AsyncEngine) -> None:
    for name in ("loops", "own"):
        tasks = [asyncio.ensure_future(ask(engine, request(HELLO, name))) for _ in range(10)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert not engine._streams
