"""The doors of uploads: which blobs are missing, and large ones that go on where they broke off."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline
from support.served import Served, serving

DATA = bytes(range(256)) * 64
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
DOOR = f"/api/v1/blobs/{DIGEST}/upload"


def send(served: Served, data: bytes, offset: int | str, complete: str = "?0", **headers: str) -> httpx.Response:
    given = {"content-type": "application/partial-upload", "upload-offset": str(offset), "upload-complete": complete}
    return served.http.patch(DOOR, content=data, headers={**given, **headers})


def state(served: Served) -> tuple[int, str]:
    head = served.http.head(DOOR)
    assert head.status_code == 204
    return int(head.headers["upload-offset"]), head.headers["upload-complete"]


def test_a_blob_comes_in_pieces_and_is_there_with_the_last(served: Served) -> None:
    assert state(served) == (0, "?0")
    first = send(served, DATA[:5000], 0)
    assert (first.status_code, first.headers["upload-offset"]) == (204, "5000")
    assert send(served, DATA[5000:9000], 5000).status_code == 204
    assert state(served) == (9000, "?0")
    assert served.http.head(f"/api/v1/blobs/{DIGEST}").status_code == 404
    last = send(served, DATA[9000:], 9000, "?1")
    assert (last.status_code, last.headers["upload-complete"]) == (201, "?1")
    assert state(served) == (len(DATA), "?1")
    assert served.http.head(f"/api/v1/blobs/{DIGEST}").headers["x-graftwork-blob-size"] == str(len(DATA))


def test_all_bytes_may_have_come_before_the_end_was_said(served: Served) -> None:
    send(served, DATA, 0)
    assert send(served, b"", len(DATA), "?1").status_code == 201


def test_another_offset_is_a_409_that_says_the_right_one(served: Served) -> None:
    send(served, DATA[:5000], 0)
    answer = send(served, DATA, 0, "?1")
    assert answer.status_code == 409
    assert "5000 bytes" in answer.json()["detail"]
    assert state(served) == (5000, "?0")


def test_bytes_of_another_digest_are_a_400_and_leave_nothing(served: Served) -> None:
    send(served, DATA[:5000], 0)
    answer = send(served, DATA, 5000, "?1")
    assert (answer.status_code, answer.json()["field"]) == (400, "digest")
    assert state(served) == (0, "?0")
    assert send(served, DATA, 0, "?1").status_code == 201


def test_the_sum_is_limited(settings: Settings, tmp_path: Any) -> None:
    with serving(settings.model_copy(update={"max_blob_bytes": 10_000}), tmp_path) as served:
        assert send(served, DATA[:9000], 0).status_code == 204
        assert send(served, DATA[:1001], 9000).status_code == 413
        chunked: Iterator[bytes] = iter([DATA[:600], DATA[:600]])
        headers = {"content-type": "application/partial-upload", "upload-offset": "9000"}
        assert served.http.patch(DOOR, content=chunked, headers=headers).status_code == 413
        assert state(served)[0] <= 10_000


@pytest.mark.parametrize("offset", ["", "-1", "1.5", "٣", "9" * 30, "x"])
def test_an_offset_that_is_no_number_is_a_400(served: Served, offset: str) -> None:
    headers = {"content-type": "application/partial-upload", "upload-offset": offset.encode()}
    answer = served.http.patch(DOOR, content=b"x", headers=headers)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["field"]) == (400, "Upload-Offset")


def test_the_body_must_say_that_it_is_a_part(served: Served) -> None:
    assert send(served, DATA, 0, **{"content-type": "application/octet-stream"}).status_code == 415


def test_an_upload_can_be_dropped(served: Served) -> None:
    send(served, DATA[:5000], 0)
    assert served.http.delete(DOOR).status_code == 204
    assert state(served) == (0, "?0")


def test_only_what_is_missing_or_of_another_size_is_asked_for(served: Served) -> None:
    served.http.put(f"/api/v1/blobs/{DIGEST}", content=DATA, headers={"content-type": "application/octet-stream"})
    other = "sha256:" + "0" * 64
    blobs = [{"digest": DIGEST, "size": len(DATA)}, {"digest": other, "size": 3}]
    answer = served.http.post("/api/v1/blobs/missing", json={"blobs": blobs})
    assert answer.json() == {"missing": [other]}
    blobs[0]["size"] = 3
    assert served.http.post("/api/v1/blobs/missing", json={"blobs": blobs}).json()["missing"] == [DIGEST, other]


@pytest.mark.parametrize(
    "body",
    [
        *({}, {"blobs": [{"digest": "sha256:nope", "size": 1}]}, {"blobs": [{"digest": DIGEST, "size": -1}]}),
        *({"blobs": [{"digest": DIGEST, "size": 1}] * 4097}, {"blobs": [{"digest": DIGEST}]}),
    ],
)
def test_a_question_that_makes_no_sense_is_a_400(served: Served, body: Any) -> None:
    assert served.http.post("/api/v1/blobs/missing", json=body).status_code == 400


class Broken:
    """A PATCH whose client sends some chunks and is gone."""

    def __init__(self, app: FastAPI, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)
        headers = [
            (b"host", b"localhost"),
            (b"content-type", b"application/partial-upload"),
            (b"upload-offset", b"0"),
        ]
        self.scope = {"type": "http", "method": "PATCH", "path": DOOR, "raw_path": b"", "query_string": b""}
        self.task = asyncio.create_task(app({**self.scope, "headers": headers}, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        chunk = next(self._chunks, None)
        if chunk is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_what_came_before_the_client_was_gone_stays(settings: Settings, count: int) -> None:
    app = build_app(settings, outline_of=fake_outline)
    with suppress(Exception):
        await Broken(app, [DATA[:4096]] * count).task
    assert app.state.services.uploads.offset("local", DIGEST) == 4096 * count
    app.state.services.registry._database.close()
