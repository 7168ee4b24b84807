"""The client: every verb, errors as our own, nothing left running."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from graftwork.client import Client
from graftwork.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    Refused,
    Unavailable,
    UnknownModel,
)
from graftwork.settings import Settings
from graftwork.testing import write_lora
from support.served import Served
from support.waiting import eventually


def test_nothing_runs_after_close(served: Served) -> None:
    before = threading.active_count()
    served.client.adapters()
    served.http.close()
    eventually(lambda: threading.active_count() <= before)  # they are told to end, and not waited for


def test_push_uploads_only_what_is_missing(served: Served, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "a", served.engine.outline)
    requests: list[str] = []
    served.http.event_hooks["request"].append(lambda request: requests.append(request.method))
    first = served.client.push(folder, "alpha:1.0.0", metadata={"labels": {"team": "blue"}})
    again = served.client.push(folder, "alpha")
    assert (first["created"], again["created"], again["digest"]) == (True, False, first["digest"])
    assert requests.count("PUT") == 2
    assert served.client.show("alpha")["metadata"]["labels"] == {"team": "blue"}


@pytest.mark.parametrize("large", [False, True], ids=["sent whole", "sent in parts"])
@pytest.mark.parametrize("cut", [False, True], ids=["other bytes", "fewer bytes"])
def test_push_repairs_a_damaged_blob(
    served: Served, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool, cut: bool
) -> None:
    if large:
        monkeypatch.setattr("graftwork.client.uploads.WHOLE_BYTES", 0)
    folder = write_lora(tmp_path / "a", served.engine.outline)
    version = served.client.push(folder, "alpha:1.0.0")
    [weights] = [file for file in version["manifest"]["files"] if file["path"].endswith(".safetensors")]
    [blob] = (settings.home / "artifacts").rglob(weights["digest"].removeprefix("sha256:"))
    blob.chmod(0o644)
    blob.write_bytes(b"x" * (weights["size"] // (2 if cut else 1)))
    assert served.client.push(folder, "beta:1.0.0")["created"]


def test_the_whole_life_of_an_adapter(served: Served) -> None:
    client = served.client
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:1.1.0", seed=2)
    client.promote("alpha:1.0.0", reason="first")
    client.promote("alpha:1.1.0", reason="better")
    assert client.rollback("alpha", reason="worse")["semver"] == "1.0.0"
    client.set_alias("alpha", "champion", "alpha:1.1.0")
    assert client.show("alpha@champion")["semver"] == "1.1.0"
    client.remove_alias("alpha", "champion")
    assert [adapter["name"] for adapter in client.adapters()] == ["alpha"]
    assert [version["semver"] for version in client.versions("alpha")] == ["1.1.0", "1.0.0"]
    kinds = [event["kind"] for event in client.history("alpha")]
    assert kinds[-3:] == ["version.rolled_back", "alias.set", "alias.removed"]


def test_errors_come_back_as_our_own(served: Served, tmp_path: Path) -> None:
    served.push("alpha:1.0.0")
    with pytest.raises(UnknownModel, match="'nope' does not exist"):
        served.client.chat("x", model="nope")
    with pytest.raises(NotFound):
        served.client.show("nope")
    with pytest.raises(InvalidRequest) as invalid:
        served.client.chat("x", temperature=9)
    assert invalid.value.field == "temperature"
    with pytest.raises(Conflict):
        served.client.set_alias("alpha", "production", "alpha:1.0.0")
    broken = write_lora(tmp_path / "broken", served.engine.outline)
    (broken / "adapter_config.json").unlink()
    with pytest.raises(Refused) as refused:
        served.client.push(broken, "broken")
    assert "adapter_config.json" in " ".join([refused.value.message, *refused.value.problems])


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_of_dots_asks_of_nothing_that_lies_above(served: Served, name: str) -> None:
    served.push("alpha:1.0.0")
    client = served.client
    client.lifecycle.set_policy({"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy"})
    asks: list[Callable[[], object]] = [
        lambda: client.remove_alias("alpha", name),
        lambda: client.tags.remove("alpha", name),
        lambda: client.lifecycle.remove_policy(name),
    ]
    before = served.http.get("/api/v1/audit/head").json()
    for ask in asks:
        with pytest.raises(InvalidRequest, match="dots"):
            ask()
    assert served.http.get("/api/v1/audit/head").json() == before


def test_nobody_there_is_unavailable_and_says_where() -> None:
    with (
        Client("http://127.0.0.1:9") as client,
        pytest.raises(Unavailable, match=r"No answer from http://127\.0\.0\.1:9"),
    ):
        client.adapters()


@pytest.mark.parametrize("end", ["/", "/v1", "/v1/"])
def test_an_openai_url_is_understood(end: str) -> None:
    with (
        Client(f"http://127.0.0.1:9{end}") as client,
        pytest.raises(Unavailable, match=r"No answer from http://127\.0\.0\.1:9:"),
    ):
        client.adapters()


def test_a_folder_above_adapters_is_not_sent(served: Served, tmp_path: Path) -> None:
    folder = write_lora(tmp_path / "a", served.engine.outline)
    with pytest.raises(Refused, match=f"Did you mean {folder}"):
        served.client.push(tmp_path, "alpha")


def test_client_wants_one_place_to_speak_to() -> None:
    with pytest.raises(InvalidRequest):
        Client()
    with pytest.raises(InvalidRequest):
        Client("http://x", http=httpx.Client())
