"""GraftworkCallback: registers what a transformers Trainer (or one of TRL's) trained, when it is done."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from graftwork.client import Client
from graftwork.errors import GraftworkError, Refused
from graftwork.training.fingerprint import fingerprint
from graftwork.training.hyperparameters import final_metrics, of_arguments, of_peft
from graftwork.training.provenance import code_version
from graftwork.training.registration import described, send

log = logging.getLogger(__name__)


class GraftworkCallback(TrainerCallback):  # type: ignore[misc]
    """At the end of the training, saves the adapter and registers it as a version of `NAME[:SEMVER]`.

    With it go hyper-parameters (TrainingArguments, PEFT's config), the data's fingerprint, the code version as the
    training began, the environment, the last of each number that was logged, and the parent.

    A registration that fails ends no training: it is logged as an error, kept in `error`, and what was trained lies in
    `folder` with its metadata beside it (`<folder>.metadata.json`), ready for `graftwork push`.

    Args:
        folder: where to save the adapter; `adapter` in the trainer's output folder where you say nothing.
        parent: reference of the version that the training began with.
        dataset: where the training data is, as a URI.
        metadata: more of it, by its schema; goes before what is found out here.
        client, url: who to register with, as in `register`.
        raise_errors: let a registration that fails end the program.

    >>> trainer = Trainer(model, args, train_dataset=notes,  # doctest: +SKIP
    ...                   callbacks=[GraftworkCallback("clinical-notes", dataset="s3://data/notes/2026-11")])
    """

    def __init__(
        self,
        reference: str,
        *,
        folder: str | Path | None = None,
        parent: str | None = None,
        dataset: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        client: Client | None = None,
        url: str | None = None,
        raise_errors: bool = False,
    ) -> None:
        self.reference = reference
        self.folder: Path | None = None  #: where the adapter was saved
        self.version: dict[str, Any] | None = None  #: what was registered
        self.error: Exception | None = None  #: why nothing was
        self._place = folder
        self._parent, self._dataset, self._metadata = parent, dataset, metadata
        self._client, self._url, self._raise_errors = client, url, raise_errors
        self._code: dict[str, Any] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Note the code version: files may change while it trains."""
        self._code = code_version()

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Save and register, in the one process that speaks for all."""
        if not state.is_world_process_zero:
            return
        self.version = self.error = None
        folder = self.folder = Path(self._place or Path(args.output_dir) / "adapter")
        try:
            model = _peft_model(more.get("model"))
            name = model.active_adapters[0]
            model.save_pretrained(str(folder), selected_adapters=[name])
            if name != "default":
                folder = self.folder = folder / name  # where PEFT puts it
            metadata = self._described(args, state, model, more.get("train_dataloader"))
            self.version = send(folder, self.reference, metadata, client=self._client, url=self._url)
        except Exception as error:  # whatever it is, the training was not in vain
            self.error = error
            self._tell(folder, error)
            if self._raise_errors:
                raise
        else:
            log.info("registered %s:%s", self.version["adapter"], self.version["semver"])

    def _described(self, args: Any, state: Any, model: Any, data: Any) -> dict[str, Any]:
        metadata = described(
            hyperparameters={**of_arguments(args), **of_peft(model)},
            metrics=final_metrics(state.log_history),
            datasets=self._datasets(getattr(data, "dataset", None)),
            parents=[self._parent] if self._parent else (),
            code=self._code,
            metadata=self._metadata,
        )
        _beside(self.folder).write_text(json.dumps(metadata, indent=1) + "\n", encoding="utf-8")
        return metadata

    def _datasets(self, data: Any) -> list[dict[str, str]]:
        facts = {"uri": self._dataset, "digest": fingerprint(data), "name": _name_of(data), "split": _split_of(data)}
        found = {field: fact for field, fact in facts.items() if fact}
        return [found] if found else []

    def _tell(self, folder: Path, error: Exception) -> None:
        reason = error.message if isinstance(error, GraftworkError) else f"{type(error).__name__}: {error}"
        told = f" --metadata {shlex.quote(str(_beside(folder)))}" if _beside(folder).is_file() else ""
        saved = (folder / "adapter_config.json").is_file()
        command = f"graftwork push {shlex.quote(str(folder))} {self.reference}{told}"
        again = f"It lies in {folder}; register it with: {command}" if saved else "It could not be saved either."
        log.error("What was trained is NOT registered as %s: %s %s", self.reference, reason, again)


def _peft_model(model: Any) -> Any:
    model = getattr(model, "module", model)  # as it is wrapped for several devices
    if not hasattr(model, "peft_config"):
        kind = type(model).__name__
        raise Refused(f"The trainer's model ({kind}) is no PEFT model, so there is no adapter to register.")
    return model


def _beside(folder: Path | None) -> Path:
    assert folder is not None, "chosen before anything is written"
    return folder.with_name(f"{folder.name}.metadata.json")


def _name_of(data: Any) -> str | None:
    name = getattr(getattr(data, "info", None), "dataset_name", None)
    return name if isinstance(name, str) else None


def _split_of(data: Any) -> str | None:
    split = getattr(data, "split", None)
    return str(split) if split is not None else None
