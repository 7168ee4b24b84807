"""register: a trained folder becomes a version, with how it was trained."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graftwork.client import Client
from graftwork.training.provenance import code_version, environment


def register(
    folder: str | Path,
    reference: str,
    *,
    hyperparameters: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    datasets: Sequence[Mapping[str, str]] = (),
    parents: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    client: Client | None = None,
    url: str | None = None,
) -> dict[str, Any]:
    """Register the adapter in `folder` as a version of `NAME[:SEMVER]`; returns the version.

    Code version and environment are those of this process and its working directory.

    Args:
        datasets: snapshots of what it was trained on: `uri`, `digest`, `name`, `split`.
        parents: references of the versions that it was derived from.
        metadata: more of it, by its schema; goes before what is found out here.
        client: who to register with; else the server at `url`, at GRAFTWORK_URL, or GRAFTWORK_HOME in this process.

    Raises:
        GraftworkError: as `Client.push`.
    """
    told = described(
        hyperparameters=hyperparameters, metrics=metrics, datasets=datasets, parents=parents, metadata=metadata
    )
    return send(folder, reference, told, client=client, url=url)


def described(
    *,
    hyperparameters: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    datasets: Sequence[Mapping[str, str]] = (),
    parents: Sequence[str] = (),
    code: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Metadata of a training that ends here; `metadata` goes before what is found out."""
    found = {
        "training": {"hyperparameters": dict(hyperparameters or {}), "metrics": dict(metrics or {})},
        "datasets": [dict(one) for one in datasets],
        "parents": list(parents),
        "code": dict(code_version() if code is None else code),
        "environment": environment(),
    }
    return _merged({name: value for name, value in found.items() if value}, metadata or {})


def send(
    folder: str | Path, reference: str, metadata: Mapping[str, Any], *, client: Client | None, url: str | None
) -> dict[str, Any]:
    """Push with these metadata, to whom `register` would."""
    with _client(client, url) as found:
        return found.push(folder, reference, metadata=metadata)


@contextmanager
def _client(client: Client | None, url: str | None) -> Iterator[Client]:
    if client is not None:
        yield client
        return
    if url := url or os.environ.get("GRAFTWORK_URL"):
        with Client(url) as made:
            yield made
        return
    from graftwork.gateway.app import build_app
    from graftwork.settings import Settings

    with Client(app=build_app(Settings())) as made:
        yield made


def _merged(found: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(found)
    for name, value in said.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(merged[name], value) if both else value
    return merged
