"""Engine: registry and engine in one process, without HTTP."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graftwork import Engine
from graftwork.client import Client
from graftwork.embedded import Answer
from graftwork.engine.request import GenerationRequest
from graftwork.engine.sequence import Sequence
from graftwork.errors import Conflict, Forbidden, InvalidRequest, Refused, UnknownModel
from graftwork.gateway.app import build_app
from graftwork.registry.rules.policy import Policy
from graftwork.traffic.decision import Decision
from support.classifiers import ClassifierOracle, make_classifier
from support.fixtures import Tiny
from support.keys import KEYS
from support.oracle import ComposedOracle, Oracle
from support.tiny import byte_tokenizer


@pytest.fixture(scope="module")
def engine(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    home = tmp_path_factory.mktemp("home")
    changes = {**tiny.settings.model_dump(), "home": home, "cache_dir": tiny.settings.cache}
    with Engine(**changes) as made:
        made.push(tiny.adapter("a1"), "first")
        made.push(tiny.adapter("a2"), "second:2.0.0")
        yield made


def test_answers_are_those_of_the_adapter_alone(engine: Engine, tiny: Tiny) -> None:
    prompt = list(range(5, 25))
    for adapter, folder in ((None, None), ("first", "a1"), ("second:2.0.0", "a2")):
        answer = engine.generate(prompt, adapter=adapter, temperature=0, max_tokens=8, ignore_eos=True)
        tokens, _ = Oracle(tiny.root / "base", tiny.root / folder if folder else None).greedy(prompt, 8)
        assert answer.text == byte_tokenizer().decode(tokens, skip_special_tokens=True)
        assert answer.completion_tokens == 8


def test_several_adapters_and_the_base_are_answered_together(engine: Engine) -> None:
    asked = [("hello", "first"), ("hello", "second"), ("hello", None), ("hello", "first")]
    answers = engine.generate_all(asked, temperature=0, max_tokens=12, ignore_eos=True)
    assert [answer.model for answer in answers] == ["first:1.0.0", "second:2.0.0", "base", "first:1.0.0"]
    assert answers[0].text == answers[3].text and len({answer.text for answer in answers}) == 3


def test_stream_gives_the_same_text_and_can_be_left(engine: Engine) -> None:
    options: dict[str, Any] = {"temperature": 0, "max_tokens": 20, "ignore_eos": True}
    assert (
        "".join(engine.stream("hello", adapter="first", **options))
        == engine.generate("hello", adapter="first", **options).text
    )
    with closing(engine.stream("hello", max_tokens=400, ignore_eos=True)) as pieces:
        next(pieces)
    assert engine.generate("hello", max_tokens=2).finish_reason in ("length", "stop")


def test_a_package_is_registered_and_answers(engine: Engine, tmp_path: Path) -> None:
    with Client(app=build_app(engine.settings)) as client:
        made = client.packages.export("first", tmp_path / "first.tar")
    version = engine.import_package(tmp_path / "first.tar", "packed:3.0.0")
    assert (version.label, version.digest) == ("packed:3.0.0", made["digest"])
    assert version.metadata is not None and version.metadata["labels"]["imported_from"]["adapter"] == "first"
    texts = {engine.generate("hello", adapter=name, temperature=0, max_tokens=8).text for name in ("first", "packed")}
    assert len(texts) == 1
    with pytest.raises(Refused, match="no valid signature"):
        engine.import_package(tmp_path / "first.tar", "packed", public_key=KEYS["p256"].public)


def test_a_version_is_loaded_kept_and_let_go(engine: Engine) -> None:
    engine.load("second")
    digest = engine.registry.show("local", "second").digest
    assert engine.residency()[digest].label == "second:2.0.0"
    engine.pin("second")
    with pytest.raises(Conflict, match="unpin"):
        engine.unload("second")
    engine.unpin("second")
    engine.unload("second", disk=True)
    assert digest not in engine.residency()
    assert engine.generate("hello", adapter="second", max_tokens=1).model == "second:2.0.0"
    with pytest.raises(UnknownModel):
        engine.load("third")


def test_what_the_policy_forbids_is_neither_asked_nor_loaded(engine: Engine) -> None:
    rules, other = engine.lifecycle, "second:2.0.0"
    rules.set_policy("local", Policy(require={"serving": ("approval",)}), adapter="second", actor="me")
    try:
        for forbidden in (engine.load, engine.pin, lambda name: engine.generate("hello", adapter=name)):
            with pytest.raises(Forbidden, match=r"second:2\.0\.0: its approval is pending"):
                forbidden(other)
        with pytest.raises(Forbidden):
            engine.generate("hello", adapter=[("first", 0.5), ("second", 0.5)])
        assert engine.generate("hello", adapter="first", max_tokens=1).model == "first:1.0.0"
        rules.decide("local", other, "approved", actor="me")
        rules.deprecate("local", other, "Use first.", actor="me")
        assert engine.generate("hello", adapter=other, max_tokens=1).deprecated == ("second:2.0.0: Use first.",)
    finally:
        rules.set_policy("local", None, adapter="second", actor="me")
        rules.undeprecate("local", other, actor="me")


def test_pushing_the_same_bytes_again_is_the_same_version(engine: Engine, tiny: Tiny) -> None:
    assert engine.push(tiny.adapter("a1"), "first").semver == "1.0.0"
    with pytest.raises(Conflict):
        engine.push(tiny.adapter("a2"), "first:1.0.0")


def test_what_an_adapter_carries_is_used_unless_the_caller_says_otherwise(
    engine: Engine, tiny: Tiny, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "a"))
    (folder / "chat_template.jinja").write_text("{{ 'Q: ' ~ messages[-1].content }}")
    (folder / "generation_config.json").write_text('{"do_sample": false, "max_new_tokens": 5}')
    engine.push(folder, "own")
    own = engine.generate("hello", adapter="own", ignore_eos=True)
    assert (own.prompt_tokens, own.completion_tokens) == (len("Q: hello"), 5)
    assert own.text == engine.generate("hello", adapter="own", ignore_eos=True).text, "its default is greedy"
    plain = engine.generate("hello", adapter="own", companions="base", temperature=0, max_tokens=9, ignore_eos=True)
    assert plain.text == engine.generate("hello", adapter="first", temperature=0, max_tokens=9, ignore_eos=True).text
    with pytest.raises(InvalidRequest, match="companions"):
        engine.generate("hello", adapter="own", companions="mine")


def test_errors_are_the_callers_words(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel):
        engine.generate("hello", adapter="nobody")
    with pytest.raises(InvalidRequest):
        engine.generate("hello", temperature=-1)
    with pytest.raises(InvalidRequest, match="list of messages"):
        engine.generate([1, 2.0, "x", 3])  # type: ignore[arg-type]
    for nobody in ("", "default", "base"):
        with pytest.raises(UnknownModel):
            engine.generate("hello", adapter=nobody)
    with pytest.raises(UnknownModel):
        engine.generate_all([("hello", "first"), ("hello", "nobody")])
    with pytest.raises(Refused, match=r"adapter_config\.json"):
        (tmp_path / "readme.txt").write_text("no adapter")
        engine.push(tmp_path, "empty")


def test_a_version_of_another_base_is_refused_even_if_its_shapes_fit(engine: Engine, tiny: Tiny) -> None:
    from graftwork.traffic.choice import choose
    from graftwork.traffic.decision import Asked
    from graftwork.traffic.servable import require_servable

    decision = choose(Asked("first"), tenant="local", base="base", versions=engine._snapshots.current())
    assert decision.version is not None
    other = replace(decision, version=replace(decision.version, base="other", base_digest="sha256:" + "1" * 64))
    with pytest.raises(Refused, match="pushed for the base other"):
        require_servable(other.versions, base="base", base_digest=tiny.outline.weights_digest)


def test_several_adapters_answer_together(engine: Engine, tiny: Tiny) -> None:
    prompt, mix = list(range(5, 25)), [("first", 0.7), ("second", 0.3)]
    answer = engine.generate(prompt, adapter=mix, temperature=0, max_tokens=8, ignore_eos=True)
    parts = [(tiny.root / "a1", 0.7), (tiny.root / "a2", 0.3)]
    tokens, _ = ComposedOracle(tiny.root / "base", parts).greedy(prompt, 8)
    assert answer.text == byte_tokenizer().decode(tokens, skip_special_tokens=True)
    assert answer.model == "first:1.0.0*0.7+second:2.0.0*0.3"
    assert answer.digest != engine.generate("x", adapter="first", max_tokens=1).digest


def test_texts_become_the_vectors_of_the_base_or_of_an_adapter(engine: Engine, tiny: Tiny) -> None:
    for adapter, folder in ((None, None), ("first", tiny.root / "a1")):
        [got] = engine.embed(["hello big world"], adapter=adapter)
        tokens = byte_tokenizer().encode("hello big world")
        want = Oracle(tiny.root / "base", folder).hidden(tokens).mean(0)
        assert got == pytest.approx((want / want.norm()).tolist(), abs=1e-4)
    with pytest.raises(InvalidRequest, match="list"):
        engine.embed("hello")


def test_classes_come_with_their_probabilities(engine: Engine, tiny: Tiny, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the base has no head to begin with
        make_classifier(tiny.root / "base", tmp_path / "three", labels=3)
        truth = ClassifierOracle(tiny.root / "base", tmp_path / "three", 3)
    engine.push(tmp_path / "three", "three")
    texts = ["hello", "a longer text"]
    for text, got in zip(texts, engine.classify(texts, adapter="three"), strict=True):
        want = truth.logits(byte_tokenizer().encode(text)).softmax(-1).tolist()
        assert list(got) == ["LABEL_0", "LABEL_1", "LABEL_2"]
        assert list(got.values()) == pytest.approx(want, abs=1e-4)
    with pytest.raises(InvalidRequest, match="head"):
        engine.classify(["hello"], adapter="first")


PROMPT = list(range(5, 25))
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 12, "ignore_eos": True}


def truth(tiny: Tiny, folder: str, count: int = 12) -> str:
    tokens, _ = Oracle(tiny.root / "base", tiny.adapter(folder)).greedy(PROMPT, count)
    return str(byte_tokenizer().decode(tokens, skip_special_tokens=True))


def test_a_name_with_new_bytes_answers_with_them_and_what_runs_ends_on_the_old(
    engine: Engine, tiny: Tiny, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "p"))
    engine.push(folder, "moved")
    assert engine.generate(PROMPT, adapter="moved", **GREEDY).text == truth(tiny, "a1")
    with closing(engine.stream(PROMPT, adapter="moved", **(GREEDY | {"max_tokens": 60}))) as pieces:
        begun = next(pieces)
        shutil.copytree(tiny.adapter("a2"), folder, dirs_exist_ok=True)
        assert engine.generate(PROMPT, adapter="moved", **GREEDY).text == truth(tiny, "a1"), "nothing was pushed"
        assert engine.push(folder, "moved").semver == "1.0.1"
        new = engine.generate(PROMPT, adapter="moved", **GREEDY)
        assert (new.text, new.model) == (truth(tiny, "a2"), "moved:1.0.1")
        assert begun + "".join(pieces) == truth(tiny, "a1", 60)


def test_the_cache_follows_the_version_and_not_the_name(engine: Engine, tiny: Tiny) -> None:
    """A, then B under the same name, then back to A: each answers as if it were alone, and B finds nothing of A's."""
    prompt = [1 + index % 250 for index in range(150)]
    greedy: dict[str, Any] = {"temperature": 0, "max_tokens": 8, "ignore_eos": True}

    def ask(cached: int, folder: str, **more: Any) -> None:
        answer = engine.generate(prompt, adapter="turned", **greedy, **more)
        tokens, _ = Oracle(tiny.root / "base", tiny.root / folder).greedy(prompt, 8)
        assert answer.text == byte_tokenizer().decode(tokens, skip_special_tokens=True)
        assert (answer.cached_tokens, answer.prompt_tokens) == (cached, 150)

    engine.push(tiny.adapter("a1"), "turned:1.0.0")
    engine.registry.promote("local", "turned:1.0.0", actor="me")
    ask(0, "a1")
    ask(128, "a1")
    ask(0, "a1", cache_salt="mine")
    ask(128, "a1", cache_salt="mine")
    engine.push(tiny.adapter("a2"), "turned:2.0.0")
    engine.registry.promote("local", "turned:2.0.0", actor="me")
    ask(0, "a2")
    ask(128, "a2")
    engine.registry.rollback("local", "turned", actor="me")
    ask(128, "a1")
    with pytest.raises(InvalidRequest, match="cache_salt must be a text") as caught:
        engine.generate(prompt, cache_salt="")
    assert caught.value.field == "cache_salt"


def test_of_several_the_smallest_priority_goes_first(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One place in the batch: answers end in the order of their priorities, and equals in which they arrived."""
    came: list[Sequence] = []
    ended: list[str] = []
    scheduler, plain = engine._engine._scheduler, Engine._whole
    add = scheduler.add

    def queue(row: Sequence) -> None:
        add(row)
        came.append(row)
        scheduler._max_num_seqs = len(came) // 6  # none begins before all are here

    async def whole(self: Engine, request: GenerationRequest, decision: Decision) -> Answer:
        answer = await plain(self, request, decision)
        ended.append(request.id)
        return answer

    monkeypatch.setattr(Engine, "_whole", whole)
    monkeypatch.setattr(scheduler, "add", queue)
    monkeypatch.setattr(scheduler, "_max_num_seqs", 0)
    prompts: list[tuple[list[int], None]] = [([1, number], None) for number in range(6)]
    engine.generate_all(prompts, priority=[5, 3, 0, -2, 3, 3], max_tokens=8, ignore_eos=True)
    came.sort(key=lambda row: (row.caller.priority, row.arrival))
    assert ended == [row.id for row in came]
    assert [row.tokens[1] for row in came if row.caller.priority != 3] == [3, 2, 0]


@pytest.mark.parametrize("priority", [1 << 31, -(1 << 31) - 1, 1.5, ["1"], True, None])
def test_a_priority_that_is_none_is_refused(engine: Engine, priority: Any) -> None:
    with pytest.raises(InvalidRequest, match="priority is ") as caught:
        engine.generate("hello", priority=priority)
    assert caught.value.field == "priority"
    with pytest.raises(InvalidRequest, match="2 numbers for 1 prompts"):
        engine.generate_all([("hello", None)], priority=[1, 2])


def test_versions_of_one_name_answer_side_by_side(engine: Engine, tiny: Tiny) -> None:
    names = {"beside:1.0.0": "a1", "beside:2.0.0": "a2", "beside:3.0.0": "a3"}
    digests = {reference: engine.push(tiny.adapter(folder), reference).digest for reference, folder in names.items()}
    order = [*names, "beside", *reversed(names)]
    for asked, answer in zip(order, engine.generate_all([(PROMPT, name) for name in order], **GREEDY), strict=True):
        reference = "beside:3.0.0" if asked == "beside" else asked
        assert (answer.model, answer.digest) == (reference, digests[reference])
        assert answer.text == truth(tiny, names[reference])


@pytest.mark.parametrize("adapter", [["first"], [("first", "big")], [("first", 1.0)] * 9, [("first", float("nan"))], 7])
def test_an_adapter_that_is_neither_a_reference_nor_pairs_is_refused(engine: Engine, adapter: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.generate("hello", adapter=adapter)
    assert caught.value.field == "adapter"


def test_what_is_no_prompt_and_no_pooling_is_refused(engine: Engine) -> None:
    for prompt in (42, b"bytes", [], [1.5], {"role": "user"}):
        with pytest.raises(InvalidRequest, match="prompt"):
            engine.generate(prompt)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="'Mean'"):
        engine.embed(["hello"], pooling="Mean")  # type: ignore[arg-type]


def test_an_answer_is_what_was_asked_for(engine: Engine, tiny: Tiny) -> None:
    engine.push(tiny.adapter("a1"), "formed")
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    made = engine.generate(PROMPT, adapter="formed", structured_outputs={"json": schema}, seed=1)
    assert json.loads(made.text) in ({"n": 1}, {"n": 2}) and made.finish_reason == "stop"
    pairs = [(PROMPT, "formed"), (PROMPT, None)]
    answers = engine.generate_all(pairs, structured_outputs={"choice": ("yes", "no")}, seed=2)
    assert {one.text for one in answers} <= {"yes", "no"}
    assert re.fullmatch("[0-9]{3}", "".join(engine.stream(PROMPT, structured_outputs={"regex": "[0-9]{3}"})))
    with pytest.raises(InvalidRequest) as caught:
        engine.generate(PROMPT, structured_outputs={"regex": "("})
    assert caught.value.field == "structured_outputs.regex"
    with pytest.raises(InvalidRequest, match="both say"):
        engine.generate(PROMPT, structured_outputs={"regex": "a", "choice": ["a"]})
