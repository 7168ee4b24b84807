"""The registry over HTTP: statuses, places, refusals with reasons, pages."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from graftwork.errors import InvalidMetadata
from graftwork.testing import write_lora
from support.served import Served

BYTES = {"content-type": "application/octet-stream"}


def put(served: Served, data: bytes, digest: str | None = None) -> Any:
    digest = digest or f"sha256:{hashlib.sha256(data).hexdigest()}"
    return served.http.put(f"/api/v1/blobs/{digest}", content=data, headers=BYTES)


def test_a_blob_is_created_once(served: Served) -> None:
    assert put(served, b"abc").status_code == 201
    assert put(served, b"abc").status_code == 200
    digest = f"sha256:{hashlib.sha256(b'abc').hexdigest()}"
    head = served.http.head(f"/api/v1/blobs/{digest}")
    assert (head.status_code, head.headers["x-graftwork-blob-size"]) == (200, "3")


def test_bytes_that_do_not_match_their_digest_are_refused_and_not_kept(served: Served) -> None:
    digest = "sha256:" + "0" * 64
    response = put(served, b"abc", digest)
    assert (response.status_code, response.json()["field"]) == (400, "digest")
    assert served.http.head(f"/api/v1/blobs/{digest}").status_code == 404


@pytest.mark.parametrize("digest", ["x", "..%2f..%2fetc", "sha256:zz", "%00"])
def test_a_malformed_digest_is_a_4xx(served: Served, digest: str) -> None:
    assert 400 <= served.http.put(f"/api/v1/blobs/{digest}", content=b"x", headers=BYTES).status_code < 500


def test_a_blob_that_is_not_said_to_be_bytes_is_a_415(served: Served) -> None:
    digest = f"sha256:{hashlib.sha256(b'abc').hexdigest()}"
    response = served.http.put(f"/api/v1/blobs/{digest}", content=b"abc", headers={"content-type": "text/plain"})
    assert (response.status_code, response.headers["content-type"]) == (415, "application/problem+json")
    assert served.http.head(f"/api/v1/blobs/{digest}").status_code == 404


def test_a_web_page_cannot_promote_with_plain_text(served: Served) -> None:
    served.push("alpha:1.0.0")
    plain = {"content-type": "text/plain"}
    response = served.http.post("/api/v1/adapters/alpha/promote", content='{"reference": "alpha"}', headers=plain)
    assert (response.status_code, response.headers["content-type"]) == (415, "application/problem+json")
    assert served.http.get("/api/v1/adapters/alpha").json()["production"] is None


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://test", 409)])
def test_only_pages_of_this_server_may_change_things(served: Served, origin: str, status: int) -> None:
    served.push("alpha:1.0.0")
    response = served.http.post("/api/v1/adapters/alpha/rollback", headers={"origin": origin})
    assert response.status_code == status
    assert served.http.get("/api/v1/adapters/alpha", headers={"origin": origin}).status_code == 200


def test_a_push_is_created_at_its_place(served: Served) -> None:
    version = served.push("alpha:1.0.0")
    body = {"manifest": version["manifest"], "version": "1.0.0"}
    again = served.http.post("/api/v1/adapters/alpha/versions", json=body)
    assert again.status_code == 200
    assert again.headers["location"] == "/api/v1/adapters/alpha/versions/1.0.0"
    found = served.http.get(again.headers["location"]).json()
    assert (found["digest"], found["semver"]) == (version["digest"], "1.0.0")
    assert found["account"]["ok"] is True


def test_a_version_is_found_by_number_and_by_digest(served: Served) -> None:
    digest = served.push("alpha:1.0.0")["digest"]
    for version in ("1.0.0", digest):
        assert served.http.get(f"/api/v1/adapters/alpha/versions/{version}").json()["digest"] == digest
    for version in ("2.0.0", "sha256:" + "0" * 64):
        assert served.http.get(f"/api/v1/adapters/alpha/versions/{version}").status_code == 404


def test_every_door_has_a_path_with_the_tenant(served: Served) -> None:
    served.push("alpha:1.0.0")
    for path in ("adapters", "adapters/alpha", "adapters/alpha/versions/1.0.0", "versions?reference=alpha"):
        assert served.http.get(f"/api/v1/tenants/local/{path}").json() == served.http.get(f"/api/v1/{path}").json()
    promoted = served.http.post("/api/v1/tenants/local/adapters/alpha/promote", json={"reference": "alpha"})
    assert promoted.json()["stage"] == "production"


def test_another_tenants_things_are_not_there(served: Served) -> None:
    served.push("alpha:1.0.0")
    for path in ("adapters", "adapters/alpha", "adapters/nope"):
        response = served.http.get(f"/api/v1/tenants/acme/{path}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
        assert response.json()["detail"] == "There is no tenant acme."
    response = served.http.post("/api/v1/tenants/acme/adapters/alpha/promote", json={"reference": "alpha"})
    assert response.status_code == 404


def test_same_bytes_under_another_number_is_a_409_naming_it(served: Served) -> None:
    version = served.push("alpha:1.0.0")
    body = {"manifest": version["manifest"], "version": "2.0.0"}
    response = served.http.post("/api/v1/adapters/alpha/versions", json=body)
    assert response.status_code == 409
    assert response.headers["content-type"] == "application/problem+json"
    assert "1.0.0" in response.json()["detail"]


def test_a_push_without_its_blobs_is_a_409_listing_them(served: Served) -> None:
    digest = "sha256:" + "1" * 64
    manifest = {"files": [{"path": "adapter_config.json", "size": 3, "digest": digest}]}
    response = served.http.post("/api/v1/adapters/alpha/versions", json={"manifest": manifest})
    assert response.status_code == 409
    assert digest in response.json()["detail"]


def test_a_bad_adapter_is_a_422_with_its_problems(served: Served) -> None:
    folder = write_lora(served.folder / "bad", served.engine.outline)
    (folder / "adapter_model.safetensors").write_bytes(b"x" * 9)
    files = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        put(served, data)
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        files.append({"path": path.name, "size": len(data), "digest": digest})
    response = served.http.post("/api/v1/adapters/alpha/versions", json={"manifest": {"files": files}})
    assert response.status_code == 422
    assert response.json()["code"] == "refused"
    assert response.json()["problems"]
    assert served.client.adapters() == []


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "a\\b", "a\0b", ""])
def test_a_path_out_of_the_bundle_is_a_400(served: Served, path: str) -> None:
    manifest = {"files": [{"path": path, "size": 1, "digest": "sha256:" + "1" * 64}]}
    response = served.http.post("/api/v1/adapters/alpha/versions", json={"manifest": manifest})
    assert response.status_code == 400


@pytest.mark.parametrize("name", ["latest", "v3", "default", "A", "a b", "é", "a..b", "x" * 129, "fake-base"])
def test_a_name_outside_the_grammar_or_taken_by_the_base_is_a_4xx(served: Served, name: str) -> None:
    manifest = {"files": [{"path": "a", "size": 1, "digest": "sha256:" + "1" * 64}]}
    response = served.http.post(f"/api/v1/adapters/{name}/versions", json={"manifest": manifest})
    assert 400 <= response.status_code < 500
    assert served.client.adapters() == []


def test_a_dot_in_a_name_works_everywhere(served: Served) -> None:
    served.push("a.b:1.0.0")
    assert served.chat(model="a.b").json()["model"] == "a.b:1.0.0"
    assert [entry["id"] for entry in served.client.models()] == ["fake-base", "a.b"]
    assert 'model="a.b:1.0.0"' in served.http.get("/metrics").text


def test_lists_come_in_pages(served: Served) -> None:
    for number in range(3):
        served.push(f"a{number}:1.0.0", seed=number)
    first = served.http.get("/api/v1/adapters", params={"page_size": 2}).json()
    assert [adapter["name"] for adapter in first["adapters"]] == ["a0", "a1"]
    rest = served.http.get("/api/v1/adapters", params={"page_token": first["next_page_token"]}).json()
    assert ([adapter["name"] for adapter in rest["adapters"]], rest["next_page_token"]) == (["a2"], None)


@pytest.mark.parametrize("query", ["page_size=0", "page_size=x", "page_size=5000", "page_token=../x"])
def test_malformed_pages_are_a_400(served: Served, query: str) -> None:
    assert served.http.get(f"/api/v1/adapters?{query}").status_code == 400


def test_promoting_under_another_name_is_a_400(served: Served) -> None:
    served.push("alpha:1.0.0")
    response = served.http.post("/api/v1/adapters/beta/promote", json={"reference": "alpha:1.0.0"})
    assert (response.status_code, response.json()["field"]) == (400, "reference")


def test_an_alias_moves_only_from_where_it_was_expected(served: Served) -> None:
    first = served.push("alpha:1.0.0", seed=1)["digest"]
    second = served.push("alpha:1.1.0", seed=2)["digest"]
    url = "/api/v1/adapters/alpha/aliases/champion"
    assert served.http.put(url, json={"target": "alpha:1.0.0"}).status_code == 200
    moved = served.http.put(url, json={"target": "alpha:1.1.0", "expected": second})
    assert moved.status_code == 412
    assert served.http.put(url, json={"target": "alpha:1.1.0", "expected": first}).status_code == 200
    assert served.chat(model="alpha@champion").json()["model"] == "alpha:1.1.0"
    assert served.http.delete(url).status_code == 204
    assert served.chat(model="alpha@champion").status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("alpha/versions", {"manifest": {"files": []}, "verison": "1.0.0"}, "verison"),
        ("alpha/versions", {"manifest": []}, "manifest"),
        ("alpha/versions", {"manifest": {"files": []}}, "files"),
        ("alpha/promote", {"ref": "alpha"}, "ref"),
        ("alpha/rollback", {"reason": 3}, "reason"),
        ("alpha/promote", {"reference": "alpha", "reason": "x" * 2049}, "reason"),
    ],
)
def test_a_wrong_field_of_ours_is_named(served: Served, path: str, body: dict[str, Any], field: str) -> None:
    response = served.http.post(f"/api/v1/adapters/{path}", json=body)
    assert (response.status_code, response.json()["field"]) == (400, field)


def test_rollback_needs_no_body(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:1.1.0", seed=2)
    served.client.promote("alpha:1.0.0")
    served.client.promote("alpha:1.1.0")
    response = served.http.post("/api/v1/adapters/alpha/rollback")
    assert (response.status_code, response.json()["semver"]) == (200, "1.0.0")


def test_what_is_not_there_is_a_404(served: Served) -> None:
    for path in ("/api/v1/adapters/nope", "/api/v1/adapters/nope/history", "/api/v1/versions?reference=nope"):
        response = served.http.get(path)
        assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")


def test_an_adapter_shows_its_versions_the_newest_first(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:1.1.0", seed=2)
    served.client.promote("alpha:1.0.0")
    shown = served.http.get("/api/v1/adapters/alpha").json()
    assert shown["production"] == "alpha:1.0.0"
    assert [version["semver"] for version in shown["versions"]] == ["1.1.0", "1.0.0"]


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"team": "blue"}, "metadata.team"),
        ({"adapter": {"rank": 5}}, "metadata.adapter.rank"),
        ({"parents": ["beta"]}, "metadata.parents.0"),
    ],
)
def test_wrong_metadata_are_a_422_with_their_field(served: Served, metadata: dict[str, Any], field: str) -> None:
    manifest = served.push("alpha")["manifest"]
    body = {"manifest": manifest, "metadata": metadata}
    response = served.http.post("/api/v1/adapters/gamma/versions", json=body)
    told = response.json()
    assert (response.status_code, told["code"], told["field"]) == (422, "invalid_metadata", field)
    with pytest.raises(InvalidMetadata) as caught:
        served.client.push(served.folder / "lora-0", "gamma", metadata=metadata)
    assert caught.value.field == field
    assert [adapter["name"] for adapter in served.client.adapters()] == ["alpha"]


@pytest.mark.parametrize("slash", ["%2F", "%2f"])
def test_a_name_with_a_slash_in_it_is_no_other_door(served: Served, slash: str) -> None:
    served.push("alpha:1.0.0")
    refused = served.http.delete(f"/api/v1/adapters/alpha{slash}versions{slash}1.0.0")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert served.client.show("alpha")["semver"] == "1.0.0"
    assert served.http.get(f"/v1/models/org{slash}name").status_code == 404


@pytest.mark.parametrize(
    "door", ["bases/fake-base?digest=%00", "adapters/a%00b", "search?text=a%00b", "events?kind=%00"]
)
def test_no_url_holds_a_nul_character(served: Served, door: str) -> None:
    refused = served.http.get(f"/api/v1/{door}")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")
    assert "NUL" in refused.json()["detail"]
