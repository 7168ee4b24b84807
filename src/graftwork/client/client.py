"""Client: everything a server can be asked, over HTTP or in this process, by one code path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from graftwork.adapters.files.json_file import CONFIG_NAME
from graftwork.artifacts.bundle import Manifest
from graftwork.client.analyses import Analyses
from graftwork.client.bases import Bases
from graftwork.client.declared import Declared
from graftwork.client.documents import Documents
from graftwork.client.evaluations import Evaluations
from graftwork.client.events import Events
from graftwork.client.folders import bring
from graftwork.client.inference import InferenceClient
from graftwork.client.lifecycle import Lifecycle
from graftwork.client.lifespan import ASGIApp
from graftwork.client.lineage import LineageClient
from graftwork.client.packages import Packages
from graftwork.client.predictions import Predictions
from graftwork.client.promotions import Promotions
from graftwork.client.pushes import pieces_below, push_version
from graftwork.client.retention import Holds, Retention
from graftwork.client.rollouts import Rollouts
from graftwork.client.routes import Routes
from graftwork.client.searches import Descriptions, Searches, Tags
from graftwork.client.shadows import Shadows
from graftwork.client.signatures import Signatures, manifest_of
from graftwork.client.tasks import Tasks
from graftwork.client.tenancy import Grants, Keys, Tenants, Users
from graftwork.client.verify import verify_bundles, verify_signatures
from graftwork.client.webhooks import Webhooks
from graftwork.client.wire import Json, Wire
from graftwork.errors import Refused
from graftwork.protocol.errors import error_from
from graftwork.registry.reference import parse_reference

#: Folders that a refusal names at most.
_SUGGESTED = 3


class Client(InferenceClient):
    """Speaks to a server at `url`, or to an ASGI `app` in this process, without sockets and without threads.

    `api_key` says who you are; where it is not given, GRAFTWORK_API_KEY does to a server. `http` is an httpx.Client of
    your own, with its base_url set: for proxies, certificates, headers.

    Methods raise the `graftwork.errors` that the server means, and Unavailable where none answers.

    >>> with Client("http://127.0.0.1:8080") as client:  # doctest: +SKIP
    ...     client.push("examples/adapters/sentiment", "sentiment:1.0.0")
    ...     print(client.chat("I loved it.", model="sentiment").text)
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        app: ASGIApp | None = None,
        http: httpx.Client | None = None,
        api_key: str | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        if api_key is None and url is not None:
            api_key = os.environ.get("GRAFTWORK_API_KEY") or None
        super().__init__(Wire(url, app, http, timeout_s, api_key))
        self.evaluations = Evaluations(self._wire)
        self.bases = Bases(self._wire)
        self.analyses = Analyses(self._wire)
        self.promotions = Promotions(self._wire)
        self.lineage = LineageClient(self._wire)
        self.documents = Documents(self._wire)
        self.signatures = Signatures(self._wire)
        self.searches, self.tags, self.descriptions = Searches(self._wire), Tags(self._wire), Descriptions(self._wire)
        self.holds = Holds(self._wire)
        self.retention = Retention(self._wire)
        self.packages = Packages(self._wire)
        self.lifecycle = Lifecycle(self._wire)
        self.events = Events(self._wire)
        self.tasks = Tasks(self._wire)
        self.declared = Declared(self._wire)
        self.rollouts = Rollouts(self._wire)
        self.shadows = Shadows(self._wire)
        self.routes = Routes(self._wire)
        self.predictions = Predictions(self._wire)
        self.tenants, self.users = Tenants(self._wire), Users(self._wire)
        self.keys, self.grants = Keys(self._wire), Grants(self._wire)
        self.webhooks = Webhooks(self._wire)

    # The registry

    def push(
        self,
        folder: str | Path,
        reference: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Json:
        """Register the files of `folder` as a version of `NAME[:SEMVER]`; uploads only what is not there yet.

        Large files go on where a broken connection left them. Returns the version, with `created` false where these
        bytes were registered before.

        Args:
            idempotency_key: yours for this push: the same call with it again is answered as the first one was.

        Raises:
            Refused: nothing in `folder` says that it is an adapter, or the server cannot serve it rightly.
        """
        name, _, version = reference.partition(":")
        root = Path(folder)
        _check_adapter(root)
        manifest = Manifest.of_folder(root)
        return push_version(
            self._wire,
            name,
            manifest,
            pieces_below(root, manifest),
            version=version or None,
            metadata=metadata or {},
            headers=_once(idempotency_key),
        )

    def pull(self, reference: str, folder: str | Path) -> Json:
        """Bring the files of a version into a new `folder`, exactly as they were pushed, every byte checked.

        What has come lies in a hidden folder beside it until all of it is there, and the next call goes on from it.
        Where the same files lie there already, nothing is done. Returns the version.

        Raises:
            Conflict: something else lies at `folder`, or somebody else is pulling there.
            Damaged: stored bytes are missing or wrong.
        """
        version = self.show(reference)
        bring(self._wire, manifest_of(version), Path(folder))
        return version

    def adapters(self) -> list[Json]:
        """Every adapter with its newest and its production version."""
        return self._wire.pages("/api/v1/adapters", "adapters")

    def versions(self, name: str) -> list[Json]:
        """Every version of one adapter, the newest first."""
        return self._wire.pages(f"{_adapter(name)}/versions", "versions")

    def show(self, reference: str, *, at: str | None = None) -> Json:
        """One version, with its account; with `at`, what the reference meant at that time, and how that one stood."""
        params = {"reference": reference} if at is None else {"reference": reference, "at": at}
        return self._wire.json("GET", "/api/v1/versions", params=params)

    def history(self, name: str, *, alias: str | None = None) -> list[Json]:
        """The events of one adapter, oldest first; or only those that moved one of its aliases."""
        params = {} if alias is None else {"alias": alias}
        events: list[Json] = self._wire.json("GET", f"{_adapter(name)}/history", params=params)["events"]
        return events

    def promote(self, reference: str, *, reason: str | None = None, idempotency_key: str | None = None) -> Json:
        """Make a version the one that its adapter's bare name means."""
        name, body = self.show(reference)["adapter"], {"reference": reference, "reason": reason}
        return self._wire.json("POST", f"{_adapter(name)}/promote", json=body, headers=_once(idempotency_key))

    def rollback(self, name: str, *, reason: str | None = None, idempotency_key: str | None = None) -> Json:
        """Move `@production` back to the version before; with a key of yours, only once however often it is called."""
        body = {"reason": reason}
        return self._wire.json("POST", f"{_adapter(name)}/rollback", json=body, headers=_once(idempotency_key))

    def aliases(self, name: str, *, at: str | None = None) -> list[Json]:
        """Where an adapter's aliases point, who moved them there, when and why; or how that was at a time."""
        params = {} if at is None else {"at": at}
        found: list[Json] = self._wire.json("GET", f"{_adapter(name)}/aliases", params=params)["aliases"]
        return found

    def set_alias(
        self, name: str, alias: str, target: str, *, expected: str | None = None, reason: str | None = None
    ) -> Json:
        """Let `name@alias` mean `target`; with `expected`, only if it means that digest now ("absent": nothing)."""
        body = {"target": target, "expected": expected, "reason": reason}
        return self._wire.json("PUT", f"{_adapter(name)}/aliases/{quote(alias, safe='')}", json=body)

    def remove_alias(self, name: str, alias: str, *, expected: str | None = None, reason: str | None = None) -> None:
        """Take an alias away; with `expected`, only if it means that digest now."""
        headers = {} if expected is None else {"if-match": f'"{expected}"'}
        params = {} if reason is None else {"reason": reason}
        path = f"{_adapter(name)}/aliases/{quote(alias, safe='')}"
        self._wire.send("DELETE", path, headers=headers, params=params)

    # Memory

    def residency(self, *, state: str | None = None) -> list[Json]:
        """Each version with the tiers that hold it; with `state` only those that stand so (`resident`, `failed`, …)."""
        return self._wire.pages("/api/v1/residency", "adapters", **({} if state is None else {"state": state}))

    def load(self, reference: str, *, wait_s: float | None = None) -> Json:
        """Bring a version to memory; where that takes longer than `wait_s` seconds, its state is still `loading`."""
        return self._residency("load", reference, {"wait_s": wait_s})

    def pin(self, reference: str, *, wait_s: float | None = None) -> Json:
        """Load a version and keep it in memory until `unpin`, or until the server ends.

        Raises:
            Conflict: other pins leave it no room.
        """
        return self._residency("pin", reference, {"wait_s": wait_s})

    def unpin(self, reference: str) -> Json:
        """Let a version leave memory again when its room is needed."""
        return self._residency("unpin", reference, {})

    def unload(self, reference: str, *, wait_s: float = 10.0, disk: bool = False) -> Json:
        """Free a version's memory, and with `disk` its room on the server's disk; whoever runs on it finishes.

        The state is `draining` where somebody still did after `wait_s` seconds. The next request loads it again.

        Raises:
            Conflict: it is pinned.
        """
        return self._residency("unload", reference, {"wait_s": wait_s, "disk": disk})

    def _residency(self, verb: str, reference: str, body: Json) -> Json:
        name = parse_reference(reference).name
        return self._wire.json("POST", f"{_adapter(name)}/{verb}", json={"reference": reference, **body})

    def verify(
        self, reference: str | None = None, *, signatures: bool = False, public_key: bytes | None = None
    ) -> Json:
        """Have every stored file of a version, or of all versions and bases, read and checked, one request per blob.

        Returns `{"versions", "blobs", "bytes", "problems": [{"state", "digest", "files"}]}`, where a state is
        `missing` or `damaged`; damaged bytes were set aside, so that pushing the same files again repairs them.

        Args:
            signatures: also check every signature here: `signatures`, as `client.signatures.verify` gives them.
            public_key: of these only those of this key, in PEM; `unsigned` are the versions without a valid one.
        """
        if reference is not None:
            versions, bases = [self.show(reference)], []
        else:
            versions = [version for adapter in self.adapters() for version in self.versions(adapter["name"])]
            stored = (base for base in self.bases.list() if base["manifest_digest"])
            bases = [self.bases.show(f"{base['name']}@{base['digest']}") for base in stored]
        report = verify_bundles(self._wire, versions, bases)
        if signatures or public_key is not None:
            report |= verify_signatures(self.signatures, versions, public_key)
        return report

    # The server

    def whoami(self) -> Json:
        """Whom the server takes you for: `{"tenant", "name", "user", "key", "rights"}`."""
        return self._wire.json("GET", "/api/v1/whoami")

    def base(self) -> Json:
        """The base model: name, shape, weights digest."""
        return self._wire.json("GET", "/api/v1/base")

    def verify_base(self) -> Json:
        """Hash the base's weights in the server's memory again: `{"expected", "actual", "ok"}`."""
        return self._wire.json("POST", "/api/v1/base/verify")

    def engine(self) -> Json:
        """The engine's numbers now."""
        return self._wire.json("GET", "/api/v1/engine")

    def ready(self) -> Sequence[str]:
        """Why the server is not ready; empty when it is."""
        response = self._wire.open("GET", "/ready")
        if response.status_code not in (httpx.codes.OK, httpx.codes.SERVICE_UNAVAILABLE):
            raise error_from(response.status_code, None)
        return tuple(response.json()["reasons"])

    def close(self) -> None:
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _adapter(name: str) -> str:
    return f"/api/v1/adapters/{quote(name, safe='')}"


def _once(key: str | None) -> dict[str, str]:
    return {} if key is None else {"idempotency-key": key}


def _check_adapter(folder: Path) -> None:
    """Before anything is hashed or sent: a folder above the adapters is an easy mistake, and a large one."""
    if not folder.is_dir() or (folder / CONFIG_NAME).is_file():
        return
    below = sorted(path.parent for path in folder.glob(f"*/{CONFIG_NAME}"))
    meant = f" Did you mean {' or '.join(map(str, below[:_SUGGESTED]))}?" if below else ""
    raise Refused(f"{folder} holds no {CONFIG_NAME}, which PEFT's save_pretrained writes.{meant}")
