"""Delete, hold, rules and gc at their doors: what a client is told, and what an engine is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.client.wire import Wire
from graftwork.engine.request import AdapterHandle
from graftwork.errors import Conflict, Held, InvalidRequest, NotFound
from graftwork.testing import write_lora
from support.served import Served

VERSION = "/api/v1/adapters/tone/versions/1.0.0"
RULES = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Retention", "spec": {"keepLast": 1}}


def load(served: Served, reference: str, **body: Any) -> None:
    name = reference.partition(":")[0]
    verb = body.pop("verb", "load")
    served.http.post(f"/api/v1/adapters/{name}/{verb}", json={"reference": reference, **body}).raise_for_status()


def test_a_delete_that_is_refused_lists_who_holds_the_version(served: Served) -> None:
    served.push("tone:1.0.0")
    served.client.set_alias("tone", "champion", "tone:1.0.0")
    served.client.holds.set("tone", reason="case 7")
    answer = served.http.delete(VERSION)
    assert (answer.status_code, answer.headers["content-type"]) == (409, "application/problem+json")
    body = answer.json()
    assert (body["code"], [(one["kind"], one["name"]) for one in body["holders"]]) == (
        "held",
        [("alias", "champion"), ("hold", "1")],
    )
    with pytest.raises(Held) as caught:
        served.client.retention.delete("tone:1.0.0")
    assert list(caught.value.holders) == body["holders"]
    served.client.holds.release("tone", reason="settled")
    served.client.remove_alias("tone", "champion")
    (gone,) = served.client.retention.delete("tone:1.0", reason="contract ended")
    assert gone["semver"] == "1.0.0"
    assert served.http.delete(VERSION).status_code == 404
    assert served.client.history("tone")[-1]["payload"]["reason"] == "contract ended"


def test_a_deleted_version_answers_nobody_any_more(served: Served) -> None:
    digest = served.push("tone:1.0.0")["digest"]
    served.push("tone:1.0.1", seed=1)
    served.client.retention.delete("tone:1.0.0")
    for reference in ("tone:1.0.0", f"tone@{digest}"):
        assert served.chat(adapter_id=reference).status_code == 404
    assert served.chat(adapter_id="tone").headers["x-graftwork-version"] == "1.0.1"
    assert [entry["reference"] for entry in served.client.residency()] == ["tone:1.0.1"]
    assert served.client.verify()["versions"] == 1


def test_who_runs_on_a_version_finishes_and_then_its_memory_is_free(served: Served) -> None:
    digest = served.push("tone:1.0.0")["digest"]
    load(served, "tone:1.0.0")
    served.engine._running["request"] = digest
    served.client.retention.delete("tone:1.0.0")
    assert digest in served.engine.residency()
    report = served.client.retention.gc()
    assert "memory" not in {item["kind"] for item in report["items"]}  # it is still in use
    del served.engine._running["request"]
    report = served.client.retention.gc(dry_run=True)
    assert [(item["kind"], item["name"]) for item in report["items"]] == [("memory", "tone:1.0.0")]
    assert digest in served.engine.residency()
    report = served.client.retention.gc()
    assert [(item["kind"], item["name"]) for item in report["items"]] == [("memory", "tone:1.0.0")]
    assert digest not in served.engine.residency()


def test_what_was_composed_of_a_deleted_version_leaves_memory_too(served: Served) -> None:
    served.push("tone:1.0.0")
    served.push("voice:1.0.0", seed=1)
    for scale in (0.5, 1.0):
        parts = [{"ref": "voice:1.0.0", "scale": scale}, *([{"ref": "tone:1.0.0", "scale": 1.0}] if scale < 1 else [])]
        assert served.chat(adapters=[*parts, {"ref": "voice", "scale": 1.0}]).status_code == 200
    handles = [request.adapter for request in served.engine.requests if request.adapter is not None]
    for handle in handles:
        asyncio.run(served.engine.load(handle))
    served.client.retention.delete("tone:1.0.0")
    report = served.client.retention.gc()
    assert [item["why"] for item in report["items"] if item["kind"] == "memory"] == ["it is made of tone:1.0.0"]
    assert set(served.engine.residency()) == {handle.digest for handle in handles if "tone" not in handle.label}


def test_the_same_bytes_under_another_name_stay_in_memory(served: Served) -> None:
    digest = served.push("tone:1.0.0")["digest"]
    served.push("voice:1.0.0")
    load(served, "voice:1.0.0")
    served.client.retention.delete("tone:1.0.0")
    assert digest in served.engine.residency()
    assert served.client.retention.gc(older_than_s=0)["items"] == []


def test_a_pinned_version_is_held(served: Served) -> None:
    served.push("tone:1.0.0")
    load(served, "tone:1.0.0", verb="pin")
    with pytest.raises(Held) as caught:
        served.client.retention.delete("tone:1.0.0")
    assert [one["kind"] for one in caught.value.holders] == ["pin"]
    served.client.unpin("tone:1.0.0")
    served.client.retention.delete("tone:1.0.0")
    assert served.engine.residency() == {}


def test_a_whole_adapter_goes_when_that_is_said(served: Served) -> None:
    served.push("tone:1.0.0")
    served.push("tone:1.0.1", seed=1)
    served.client.promote("tone:1.0.0")
    with pytest.raises(InvalidRequest, match="whole adapter"):
        served.client.retention.delete("tone")
    with pytest.raises(Held, match="in production"):
        served.client.retention.delete_adapter("tone")
    gone = served.client.retention.delete_adapter("tone", in_production=True, reason="contract ended")
    assert [version["semver"] for version in gone] == ["1.0.0", "1.0.1"]
    assert served.client.adapters() == []
    assert served.http.get("/v1/models").json()["data"][1:] == []
    assert served.client.history("tone")[-1]["kind"] == "adapter.deleted"


def test_holds_are_set_once_listed_and_released(served: Served) -> None:
    served.push("tone:1.0.0")
    body = {"reference": "tone:1.0.0", "reason": "case 7"}
    first, again = (served.http.post("/api/v1/holds", json=body) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert served.client.holds.list() == [first.json()] == [again.json()]
    with pytest.raises(Conflict, match="case 7"):
        served.client.holds.set("tone:1.0.0", reason="case 8")
    for wrong in ({"reference": "tone:1.0.0"}, {**body, "reason": ""}, {**body, "reason": "x" * 3000}):
        assert served.http.post("/api/v1/holds", json=wrong).status_code == 400
    served.client.holds.release("tone:1.0.0", reason="settled")
    assert served.client.holds.list() == []
    with pytest.raises(NotFound, match="not held"):
        served.client.holds.release("tone:1.0.0", reason="settled")


def test_rules_are_a_resource_that_gc_goes_by(served: Served) -> None:
    for seed in range(3):
        served.push(f"tone:1.0.{seed}", seed=seed)
    set_rules = served.client.retention.set_rules({**RULES, "metadata": {"name": "tone"}})
    assert served.client.retention.rules() == [set_rules]
    assert set_rules["spec"] == {
        "keepLast": 1, "keepDays": 0, "keepProduction": True, "archivedDays": None, "keepRollbacks": 3
    }  # fmt: skip
    looked = served.client.retention.gc(dry_run=True, older_than_s=0)
    done = served.client.retention.gc(older_than_s=0)
    assert {**looked, "dry_run": False} == done
    assert [item["name"] for item in done["items"] if item["kind"] == "version"] == ["tone:1.0.0", "tone:1.0.1"]
    assert done["erased"] == ["tone:1.0.0", "tone:1.0.1"]
    assert [version["semver"] for version in served.client.versions("tone")] == ["1.0.2"]
    assert served.client.verify()["problems"] == []
    served.client.retention.remove_rules("tone")
    with pytest.raises(NotFound):
        served.client.retention.remove_rules("tone")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kind": "Policy"}, "kind"),
        ({"apiVersion": "v1"}, "apiVersion"),
        ({"spec": {"keepLast": 0}}, "spec.keepLast"),
        ({"spec": {"keepLast": "3"}}, "spec.keepLast"),
        ({"spec": {"keepDays": -1}}, "spec.keepDays"),
        ({"spec": {"keepForever": True}}, "spec.keepForever"),
        ({"metadata": {"name": "../x"}}, "adapter"),
    ],
)
def test_wrong_rules_are_refused_by_field(served: Served, wrong: dict[str, Any], field: str) -> None:
    answer = served.http.put("/api/v1/retention", json={**RULES, **wrong})
    assert (answer.status_code, answer.json().get("field")) == (400, field), answer.text


def test_a_push_whose_files_are_collected_meanwhile_sends_them_again(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, collected = Wire.send, list[int]()

    def after_a_collection(wire: Wire, method: str, path: str, **options: Any) -> httpx.Response:
        if path.endswith("/versions") and len(collected) < 2:
            collected.append(len(served.client.retention.gc(older_than_s=0)["items"]))
        return real(wire, method, path, **options)

    folder = write_lora(tmp_path / "adapter", served.engine.outline)
    monkeypatch.setattr(Wire, "send", after_a_collection)
    assert served.client.push(folder, "tone:1.0.0")["created"]
    assert collected == [2, 2]
    assert served.client.verify()["problems"] == []
    with pytest.raises(Conflict, match="there already"):  # a conflict of another kind is told at once
        served.push("tone:1.0.0", seed=1)


def test_an_engine_that_pins_nothing_of_a_tenant_keeps_anothers_versions(served: Served) -> None:
    asyncio.run(served.engine.load(AdapterHandle("sha256:" + "a" * 64, "acme", "tone:1.0.0")))
    assert served.client.retention.gc()["items"] == []
    assert len(served.engine.residency()) == 1
