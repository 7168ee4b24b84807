"""The official openai client against a real server process: what people's programs do."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

from graftwork.testing import write_lora
from support.classifiers import ClassifierOracle, make_classifier
from support.waiting import eventually

if TYPE_CHECKING:
    from e2e.conftest import Running

pytestmark = pytest.mark.e2e

HELLO: Any = [{"role": "user", "content": "Hello there"}]
MODELS = ["tiny", "alpha", "beta:1.0.0", "gamma"]


def chat(api: openai.OpenAI, model: str, **fields: Any) -> Any:
    fields = {"temperature": 0, "max_tokens": 12, **fields}
    return api.chat.completions.create(model=model, messages=HELLO, **fields)


@pytest.mark.parametrize("model", MODELS)
def test_streamed_and_whole_answers_are_the_same(api: openai.OpenAI, model: str) -> None:
    whole = chat(api, model)
    chunks = list(chat(api, model, stream=True, stream_options={"include_usage": True}))
    streamed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert streamed == whole.choices[0].message.content
    assert {chunk.model for chunk in chunks} == {whole.model}
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert whole.model.partition(":")[0] == model.partition(":")[0]


def test_adapters_and_base_differ(api: openai.OpenAI) -> None:
    options = {"ignore_eos": True}
    answers = {chat(api, model, extra_body=options).choices[0].message.content for model in MODELS}
    assert len(answers) == len(MODELS)


def test_models_are_listed(api: openai.OpenAI) -> None:
    listed = {model.id: model for model in api.models.list()}
    assert {"tiny", "alpha", "beta", "gamma"} <= set(listed)
    assert api.models.retrieve("gamma:2.0.0").id == "gamma:2.0.0"


def test_completions_by_text_by_ids_and_by_several(api: openai.OpenAI) -> None:
    made = api.completions.create(model="alpha", prompt=["abc", "xyz"], max_tokens=5, temperature=0, logprobs=2)
    assert [choice.index for choice in made.choices] == [0, 1]
    first = made.choices[0]
    assert first.logprobs is not None and first.logprobs.token_logprobs is not None
    assert len(first.logprobs.token_logprobs) == (made.usage.completion_tokens if made.usage else 0) // 2
    by_ids = api.completions.create(model="alpha", prompt=[65, 66, 67], max_tokens=5, temperature=0)
    assert by_ids.model == "alpha:1.0.0"


def test_usage_says_what_was_cached_and_a_salt_keeps_requests_apart(api: openai.OpenAI) -> None:
    prompt: Any = [5 + index % 200 for index in range(140)]

    def cached(model: str, **fields: Any) -> Any:
        made = api.completions.create(model=model, prompt=prompt, max_tokens=2, temperature=0, **fields)
        assert made.usage is not None and made.usage.prompt_tokens_details is not None
        return made.usage.prompt_tokens_details.cached_tokens

    for model in MODELS:
        assert [cached(model), cached(model)] == [0, 128]
        salted = {"extra_body": {"cache_salt": "a secret"}}
        assert [cached(model, **salted), cached(model, **salted), cached(model)] == [0, 128, 128]


def test_embeddings_are_each_adapters_own(api: openai.OpenAI) -> None:
    vectors = []
    for model in MODELS:
        packed = api.embeddings.create(model=model, input=["abc", "a longer text"])  # the client asks for base64
        plain = api.embeddings.create(model=model, input=[[97, 98, 99], [1]], encoding_format="float")
        assert packed.model.partition(":")[0] == model.partition(":")[0]
        assert [one.index for one in packed.data] == [0, 1]
        assert sum(x * x for x in packed.data[0].embedding) == pytest.approx(1, abs=1e-5)
        assert packed.usage.prompt_tokens == 3 + 13 and plain.usage.total_tokens == 4
        vectors.append(tuple(packed.data[0].embedding))
    assert len(set(vectors)) == len(MODELS)
    with pytest.raises(openai.BadRequestError) as wrong:
        api.embeddings.create(model="alpha", input="x", dimensions=3)
    assert wrong.value.param == "dimensions"


@pytest.mark.filterwarnings("ignore")  # the base has no head to begin with
def test_a_classifier_classifies_and_generates_nothing(running: Running, api: openai.OpenAI, tmp_path: Path) -> None:
    folder = make_classifier(running.base, tmp_path / "mood", labels=3)
    digest = running.client.push(folder, "mood")["digest"]
    inputs = [[97, 98, 99], [5, 6]]
    body = {"model": "mood", "input": inputs, "logits": True}
    answer = httpx.post(f"{running.url}/v1/classify", json=body).json()
    assert (answer["model"], answer["graftwork"]["digest"]) == ("mood:1.0.0", digest)
    oracle = ClassifierOracle(running.base, folder, labels=3)
    for one, ids in zip(answer["data"], inputs, strict=True):
        want = oracle.logits(ids)
        assert one["logits"] == pytest.approx(want.tolist(), abs=1e-3)
        assert one["probs"] == pytest.approx(want.softmax(-1).tolist(), abs=1e-3)
        assert one["label"] == f"LABEL_{int(want.argmax())}"
    with pytest.raises(openai.BadRequestError, match=r"mood:1\.0\.0 is a classifier"):
        chat(api, "mood")
    assert len(api.embeddings.create(model="mood", input="abc").data[0].embedding) == running.outline.hidden_size


def test_several_adapters_answer_together(api: openai.OpenAI) -> None:
    mix = [{"ref": "alpha", "scale": 0.6}, {"ref": "beta", "scale": -0.4}]
    options = {"ignore_eos": True}
    made = [chat(api, "tiny", extra_body={**options, "adapters": order}) for order in (mix, mix[::-1])]
    assert {answer.model for answer in made} == {"alpha:1.0.0*0.6+beta:1.0.0*-0.4"}
    assert len({answer.graftwork["digest"] for answer in made}) == 1
    assert made[0].choices[0].message.content == made[1].choices[0].message.content
    others = {chat(api, model, extra_body=options).choices[0].message.content for model in MODELS}
    assert made[0].choices[0].message.content not in others
    zero = chat(api, "alpha", extra_body={**options, "adapters": [{"ref": "alpha", "scale": 0}]})
    assert zero.choices[0].message.content == chat(api, "tiny", extra_body=options).choices[0].message.content


def test_chat_logprobs_have_their_alternatives(api: openai.OpenAI) -> None:
    answer = chat(api, "alpha", logprobs=True, top_logprobs=3, max_tokens=4)
    content = answer.choices[0].logprobs.content
    assert [len(entry.top_logprobs) for entry in content] == [3] * len(content)
    assert all(entry.logprob == max(top.logprob for top in entry.top_logprobs) for entry in content)


def test_the_same_seed_gives_the_same_answer(api: openai.OpenAI) -> None:
    drawn = {chat(api, "beta", temperature=1.5, seed=11).choices[0].message.content for _ in range(3)}
    assert len(drawn) == 1


@pytest.mark.parametrize("model", MODELS)
def test_several_choices_are_repeatable_and_the_first_is_that_of_one(api: openai.OpenAI, model: str) -> None:
    drawn: dict[str, Any] = {"temperature": 1.5, "seed": 3, "extra_body": {"ignore_eos": True}}
    first = chat(api, model, n=3, **drawn)
    assert [choice.index for choice in first.choices] == [0, 1, 2]
    texts = [choice.message.content for choice in first.choices]
    assert len(set(texts)) == 3 and texts[0] == chat(api, model, **drawn).choices[0].message.content
    streamed = ["", "", ""]
    for chunk in chat(api, model, n=3, stream=True, stream_options={"include_usage": True}, **drawn):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
        if chunk.usage:
            assert chunk.usage == first.usage
    assert streamed == texts
    assert first.usage.completion_tokens == 3 * 12 and first.usage.prompt_tokens < 60


def test_choices_of_several_prompts_are_counted_prompt_by_prompt(api: openai.OpenAI) -> None:
    prompts = ["abc", "xyz and more"]
    made = api.completions.create(model="beta", prompt=prompts, n=2, best_of=2, max_tokens=4, temperature=0, echo=True)
    assert [choice.index for choice in made.choices] == [0, 1, 2, 3]
    assert [choice.text.startswith(prompts[choice.index // 2]) for choice in made.choices] == [True] * 4
    assert made.choices[0].text == made.choices[1].text
    assert made.usage is not None and made.usage.prompt_tokens == sum(map(len, prompts))


def test_an_echo_with_log_probabilities_of_the_whole_text(api: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"prompt": "café – 日本", "max_tokens": 5, "temperature": 0, "echo": True, "logprobs": 5}
    answers = {}
    for model in MODELS:
        whole = api.completions.create(model=model, **asked)
        choice, logprobs = whole.choices[0], whole.choices[0].logprobs
        assert whole.usage is not None and logprobs is not None
        assert logprobs.tokens is not None and logprobs.token_logprobs is not None
        assert logprobs.text_offset is not None and logprobs.top_logprobs is not None
        assert choice.text.startswith("café – 日本")
        assert len(logprobs.tokens) == whole.usage.total_tokens
        assert logprobs.token_logprobs[0] is None and all(value <= 0 for value in logprobs.token_logprobs[1:])
        for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
            assert token.startswith("bytes:") or choice.text[offset : offset + len(token)] == token
        assert logprobs.text_offset[whole.usage.prompt_tokens] == len("café – 日本")
        alone = api.completions.create(model=model, **{**asked, "max_tokens": 0})
        assert (alone.choices[0].text, alone.choices[0].finish_reason) == ("café – 日本", "length")
        of_prompt = alone.choices[0].logprobs
        assert of_prompt is not None and of_prompt.token_logprobs is not None
        assert of_prompt.token_logprobs[1:] == pytest.approx(
            logprobs.token_logprobs[1 : len(of_prompt.token_logprobs)], abs=1e-4
        )
        assert alone.usage is not None and alone.usage.completion_tokens == 0
        chunks = list(api.completions.create(model=model, stream=True, **asked))
        assert "".join(chunk.choices[0].text for chunk in chunks) == choice.text
        answers[model] = tuple(of_prompt.token_logprobs)
    assert len(set(answers.values())) == len(MODELS), "every version rates the prompt in its own way"


def test_prompt_log_probabilities_as_vllm_has_them(api: openai.OpenAI) -> None:
    answer = chat(api, "alpha", extra_body={"prompt_logprobs": 2})
    assert answer.prompt_logprobs[0] is None and len(answer.prompt_logprobs) == answer.usage.prompt_tokens
    assert all({1, 2} <= {entry["rank"] for entry in one.values()} for one in answer.prompt_logprobs[1:])


def test_logit_bias_forbids_and_forces(api: openai.OpenAI) -> None:
    forced = chat(api, "alpha", logit_bias={"66": 100}, extra_body={"ignore_eos": True}).choices[0].message.content
    assert len(set(forced)) == 1
    plain = api.completions.create(model="alpha", prompt=[65, 66], max_tokens=1, temperature=0, logprobs=1)
    biased = api.completions.create(
        model="alpha", prompt=[65, 66], max_tokens=1, temperature=0, logprobs=1, logit_bias={"66": 100}
    )
    assert plain.choices[0].text != biased.choices[0].text == forced[0]
    with pytest.raises(openai.BadRequestError) as wrong:
        chat(api, "alpha", logit_bias={"100000": 1})
    assert wrong.value.param == "logit_bias"


def test_unknown_models_and_wrong_fields_are_the_clients_own_errors(api: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        chat(api, "nope")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        chat(api, "alpha", n=200)
    assert wrong.value.param == "n"
    with pytest.raises(openai.BadRequestError) as better:
        api.completions.create(model="alpha", prompt="abc", n=1, best_of=2)
    assert better.value.param == "best_of"
    with pytest.raises(openai.BadRequestError, match="max_tokens"):
        chat(api, "alpha", max_tokens=0)


def test_a_prompt_over_the_context_is_refused_with_both_numbers(api: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        api.completions.create(model="alpha", prompt=[65] * 600, max_tokens=1)
    assert "600" in raised.value.message and "512" in raised.value.message


def test_max_tokens_beyond_the_context_is_refused_with_both_numbers(api: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        chat(api, "alpha", max_tokens=10_000)
    assert "10000" in raised.value.message and "512" in raised.value.message


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": "alpha"}', b'{"model": "alpha", "messages": 3}', b"\xff"])
def test_bad_bodies_do_not_disturb_the_others(running: Running, api: openai.OpenAI, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    assert httpx.post(f"{running.url}/v1/chat/completions", content=body, headers=headers).status_code == 400
    assert chat(api, "alpha").model == "alpha:1.0.0"


def test_many_at_once_share_steps_and_answer_as_alone(running: Running, api: openai.OpenAI) -> None:
    alone = {model: chat(api, model).choices[0].message.content for model in MODELS}
    wanted = MODELS * 4
    with ThreadPoolExecutor(len(wanted)) as pool:
        answers = list(pool.map(lambda model: chat(api, model).choices[0].message.content, wanted))
    assert answers == [alone[model] for model in wanted]
    assert running.client.engine()["max_distinct_adapters_in_step"] >= 2
    assert running.client.verify_base()["ok"]


def test_a_client_that_closes_its_stream_frees_its_row(running: Running, api: openai.OpenAI) -> None:
    room, before = room_for_an_answer(api), generated(running)
    stream = chat(api, "alpha", max_tokens=room, extra_body={"ignore_eos": True}, stream=True)
    next(iter(stream))
    stream.close()
    wait_until_idle(running)
    assert generated(running) - before < room / 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_socket_that_is_cut_frees_its_row(running: Running, api: openai.OpenAI, stream: bool) -> None:
    url, room, before = httpx.URL(running.url), room_for_an_answer(api), generated(running)
    body = json.dumps(
        {"model": "beta", "messages": HELLO, "max_tokens": room, "ignore_eos": True, "stream": stream}
    ).encode()
    with socket.create_connection((url.host, url.port or 80)) as connection:
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: generated(running) > before)
    wait_until_idle(running)
    assert generated(running) - before < room / 2


def test_what_another_process_pushes_is_served_at_once(running: Running, api: openai.OpenAI, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "late", running.outline, seed=9)
    command = [sys.executable, "-m", "graftwork.cli", "push", str(folder), "late", "--output", "json"]
    pushed = subprocess.run(command, env=running.environment(), capture_output=True, text=True, check=True)
    version = json.loads(pushed.stdout)
    answer = chat(api, "late")
    assert answer.model == "late:1.0.0"
    assert answer.graftwork["digest"] == version["digest"]


def room_for_an_answer(api: openai.OpenAI) -> int:
    """The most tokens that can be asked for after HELLO, in the context of 512."""
    return 512 - int(chat(api, "tiny", max_tokens=1).usage.prompt_tokens)


def generated(running: Running) -> int:
    """Tokens that the engine has made so far, for anybody."""
    return int(running.client.engine()["generated_tokens"])


def wait_until_idle(running: Running, timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        stats = running.client.engine()
        if stats["running"] == stats["waiting"] == stats["kv_pages_used"] == 0:
            return
        assert time.monotonic() < deadline, stats
