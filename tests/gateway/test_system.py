"""Health, readiness, metrics, models, the base, and life without an engine."""

from __future__ import annotations

import asyncio
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from graftwork.client import Client
from graftwork.errors import Refused, Unavailable
from graftwork.gateway import server
from graftwork.gateway.app import build_app
from graftwork.gateway.engine_slot import Stage
from graftwork.gateway.server import run_app
from graftwork.protocol.errors import ERRORS
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, fake_outline
from support.served import Served, serving


def test_a_started_server_is_ready(served: Served) -> None:
    assert served.http.get("/health").json() == {"status": "ok"}
    response = served.http.get("/ready")
    assert (response.status_code, response.json()) == (200, {"ready": True, "reasons": []})


def test_without_an_engine_the_registry_answers_and_generation_says_why_not(settings: Settings) -> None:
    with Client(app=build_app(settings, outline_of=fake_outline)) as client:
        assert client.adapters() == []
        assert client.ready() == ("engine: this server has none",)
        with pytest.raises(Unavailable, match="no engine"):
            client.chat("hi")


def test_an_engine_that_cannot_start_is_told_by_ready(settings: Settings) -> None:
    def make(*_: object) -> FakeEngine:
        raise Refused("The base is half downloaded.")

    with Client(app=build_app(settings, make_engine=make, outline_of=fake_outline)) as client:
        assert client.ready() == ("engine: The base is half downloaded.",)
        with pytest.raises(Unavailable, match="half downloaded"):
            client.chat("hi")


def test_an_engine_that_broke_is_told_by_ready(served: Served) -> None:
    assert served.http.get("/ready").status_code == 200
    served.engine.ready = False
    response = served.http.get("/ready")
    assert response.status_code == 503
    assert response.json()["reasons"] == ["engine: stopped after an internal error; restart the server"]
    answer = served.chat()
    assert answer.status_code == 503
    assert "restart the server" in answer.json()["error"]["message"]


def test_a_server_whose_engine_breaks_ends_with_the_reason(settings: Settings) -> None:
    class Breaking(FakeEngine):
        async def start(self) -> None:
            await super().start()
            asyncio.get_running_loop().call_soon(setattr, self, "ready", False)

    app = build_app(settings, engine=Breaking(), outline_of=fake_outline, load_in_background=True)
    with pytest.raises(Unavailable, match="restart the server"):
        run_app(app, app.state.services.engine, settings, announce=lambda _: None)


def test_a_server_says_where_when_it_is_ready(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, said, urls = FakeEngine(), list[str](), list[str]()

    def note(message: str, *arguments: object) -> None:
        said.append(message % arguments)
        engine.ready = False  # ends the server

    monkeypatch.setattr(server.log, "info", note)
    app = build_app(settings, engine=engine, outline_of=fake_outline, load_in_background=True)
    with pytest.raises(Unavailable):
        run_app(app, app.state.services.engine, settings, announce=urls.append)
    assert said == [f"ready at {urls[0]}; Ctrl-C stops it"]


def test_the_server_answers_while_the_base_loads(settings: Settings) -> None:
    engine = FakeEngine()

    async def slow() -> None:
        await engine.gate.wait()
        engine.ready = True

    engine.start = slow  # type: ignore[method-assign]
    app = build_app(settings, engine=engine, outline_of=fake_outline, load_in_background=True)
    with Client(app=app) as client:
        assert client.ready() == ("base: warming up",)
        with pytest.raises(Unavailable, match="still loading"):
            client.chat("hi")
        engine.gate.set()
        while client.ready():
            pass
        assert client.chat("hi").model == "fake-base"


def test_ready_names_the_stage_of_loading(settings: Settings) -> None:
    go_on, staged = threading.Event(), threading.Event()

    def make(_settings: Settings, _source: object, stage: Stage) -> FakeEngine:
        stage("readying the kernels")
        staged.set()
        assert go_on.wait(10)
        return FakeEngine()

    app = build_app(settings, make_engine=make, outline_of=fake_outline, load_in_background=True)
    with Client(app=app) as client:
        client.ready()  # starts the app
        assert staged.wait(10)
        assert client.ready() == ("base: readying the kernels",)
        go_on.set()
        while client.ready():
            pass


def test_pinned_adapters_are_loaded_before_ready(settings: Settings, served: Served) -> None:
    digest = served.push("alpha:1.0.0")["digest"]
    pinned = settings.model_copy(update={"pin": ("alpha", "nope")})
    with serving(pinned, served.folder) as other:
        reasons = other.http.get("/ready").json()["reasons"]
        assert [handle.digest for handle in other.engine.loaded] == [digest]
        assert len(reasons) == 1
        assert reasons[0].startswith("pinned adapter nope: The model 'nope' does not exist.")


def test_of_several_pins_one_that_cannot_be_loaded_is_told_and_the_others_are_kept(
    settings: Settings, served: Served
) -> None:
    for number, name in enumerate(("a", "b", "c", "broken")):
        served.push(f"{name}:1.0.0", seed=number)
    engine = FakeEngine(failures={"broken:1.0.0": Refused("Its weights are damaged.")})
    pinned = settings.model_copy(update={"pin": ("a", "broken", "b", "c")})
    with serving(pinned, served.folder, engine) as other:
        response = other.http.get("/ready")
        assert response.json()["reasons"] == ["pinned adapter broken: Its weights are damaged."]
        assert len(engine.pinned) == 3 and other.chat(model="b").status_code == 200


def test_models_lists_the_base_and_each_adapter_with_its_parent(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:1.1.0", seed=2)
    served.client.promote("alpha:1.0.0")
    base, alpha = served.client.models()
    assert (base["id"], base["parent"]) == ("fake-base", None)
    assert (alpha["id"], alpha["root"], alpha["parent"]) == ("alpha", "alpha:1.0.0", "fake-base")
    assert alpha["created"] > 1_700_000_000


@pytest.mark.parametrize("reference", ["alpha", "alpha:1.0.0", "alpha@production", "local/alpha"])
def test_one_model_is_shown_by_any_reference(served: Served, reference: str) -> None:
    served.push("alpha:1.0.0")
    served.client.promote("alpha")
    shown = served.http.get(f"/v1/models/{reference}").json()
    assert (shown["id"], shown["root"]) == (reference, "alpha:1.0.0")


def test_an_unknown_model_is_the_same_404(served: Served) -> None:
    assert served.http.get("/v1/models/nope").json() == served.chat(model="nope").json()


def test_a_version_pushed_by_another_process_can_be_called_at_once(settings: Settings, served: Served) -> None:
    assert served.chat(model="alpha").status_code == 404
    with serving(settings, served.folder) as other:
        other.push("alpha:1.0.0")
    assert served.chat(model="alpha").json()["model"] == "alpha:1.0.0"


def test_base_and_engine_are_shown_and_the_weights_are_verified(served: Served) -> None:
    base = served.client.base()
    assert (base["name"], base["max_context"], base["linear_sites"]) == ("fake-base", 256, 4)
    assert served.client.verify_base() == {
        "expected": base["weights_digest"],
        "actual": base["weights_digest"],
        "ok": True,
    }
    assert served.client.engine()["max_distinct_adapters_in_step"] == 0


def test_metrics_are_valid_and_count(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.chat(model="alpha")
    served.chat(model="nope")
    page = served.http.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert all(name.startswith("graftwork_") for name in families)
    samples = families["graftwork_completion_tokens"].samples
    assert [(sample.labels, sample.value) for sample in samples if sample.name.endswith("_total")] == [
        ({"model": "alpha:1.0.0"}, 5)
    ]
    assert "nope" not in page
    assert families["graftwork_engine_running"].samples[0].value == 0


def test_paths_that_are_nowhere_are_labelled_as_one(served: Served) -> None:
    for number in range(3):
        assert served.http.get(f"/made/up/{number}").status_code == 404
    assert 'graftwork_http_requests_total{door="other",status="404"} 3.0' in served.http.get("/metrics").text


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/nope", 404), ("GET", "/v1/completions", 405)])
def test_wrong_paths_and_methods_on_v1_are_openai_shaped(served: Served, method: str, path: str, status: int) -> None:
    response = served.http.request(method, path)
    assert response.status_code == status
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_the_api_describes_itself(served: Served) -> None:
    described = served.http.get("/openapi.json").json()
    schema = described["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = schema["$ref"].rsplit("/", 1)[1]
    assert "messages" in described["components"]["schemas"][name]["properties"]


def test_every_error_of_the_table_is_described_where_answers_are_made(served: Served) -> None:
    paths = served.http.get("/openapi.json").json()["paths"]
    elsewhere = {409, 412}  # what moves or is pinned
    for door in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/classify"):
        assert {str(kind.status) for kind in ERRORS if kind.status not in elsewhere} <= set(
            paths[door]["post"]["responses"]
        )
