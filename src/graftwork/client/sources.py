"""opened: what an import reads from: a folder, a tar, a repository of the Hugging Face Hub, a model of MLflow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Final

from graftwork.artifacts.packages.directory import read_directory
from graftwork.artifacts.packages.package import Package
from graftwork.artifacts.packages.tar import read_tar
from graftwork.client.formats import read_package
from graftwork.errors import InvalidRequest, NotFound

HUB: Final = "hf://"
MLFLOW: Final = ("models:/", "runs:/", "mlflow-artifacts:/")


@contextmanager
def opened(source: str) -> Iterator[tuple[Package, Mapping[str, Any]]]:
    """The package in a source, while the block lasts; and where it is from, for its metadata.

    Raises:
        InvalidRequest, Refused, Damaged: as `read_package`. NotFound: there is nothing, or it cannot be fetched.
    """
    if source.startswith(HUB):
        path, told = _from_hub(source)
        yield _read(path, source, {"source": source, **told})
    elif source.startswith(MLFLOW):
        with tempfile.TemporaryDirectory(prefix="graftwork-") as folder:
            package, told = _read(_from_mlflow(source, folder), source, {"source": source})
            yield _with_run(package), told
    else:
        yield _read(Path(source), source, {"source": Path(source).absolute().name})


def _read(path: Path, source: str, told: Mapping[str, Any]) -> tuple[Package, Mapping[str, Any]]:
    if not path.exists():
        raise NotFound(f"There is no folder or tar {source}.")
    package, format = read_package(read_directory(path) if path.is_dir() else read_tar(path), source)
    return package, {**told, "format": format, **package.origin}


def _from_hub(source: str) -> tuple[Path, Mapping[str, str]]:
    """The cached snapshot of a repository, fetched where it is not there; Hugging Face's own settings hold."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = source.removeprefix(HUB).partition("@")
    try:
        path = Path(snapshot_download(repository, revision=revision or None))
    except HFValidationError as error:
        raise InvalidRequest(f"{source[:200]!a} is not hf://ORG/NAME[@REVISION]: {error}", field="source") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise NotFound(f"{source} can neither be fetched nor is it in the Hugging Face cache: {reason}") from error
    return path, {"revision": path.name}


def _from_mlflow(source: str, folder: str) -> Path:
    """A model of the tracking server that MLflow is configured for, fetched into `folder`."""
    try:
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        raise InvalidRequest(
            f"To read {source[:200]}, MLflow must be installed: `pip install mlflow-skinny`. Without it, import the "
            "model's directory, the one that holds MLmodel.",
            field="source",
        ) from error
    try:
        return Path(download_artifacts(artifact_uri=source, dst_path=folder))
    except (MlflowException, OSError) as error:
        raise NotFound(f"MLflow does not give {source}: {str(error).splitlines()[0]}") from error


def _with_run(package: Package) -> Package:
    """With the parameters and the metrics of the run that logged the model, where they are still there."""
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    metadata = package.record.metadata
    run_id = package.origin.get("run_id")
    if run_id is None or "training" in metadata:
        return package
    try:
        data = MlflowClient().get_run(run_id).data
    except MlflowException:
        return package
    metrics = {name: value for name, value in data.metrics.items() if isfinite(value)}
    training = {"hyperparameters": dict(data.params), "metrics": metrics}
    return replace(package, record=package.record.model_copy(update={"metadata": {**metadata, "training": training}}))
