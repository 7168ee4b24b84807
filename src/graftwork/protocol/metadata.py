"""Metadata: what a version is described by when it is registered, and never again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from graftwork.errors import InvalidMetadata
from graftwork.protocol.body import in_words
from graftwork.protocol.registry import OurBody

Line = Annotated[str, Field(max_length=1024)]
Lines = Annotated[list[Line], Field(max_length=256)]


class BaseFacts(OurBody):
    """The base model that the adapter was trained on."""

    id: Line | None = Field(default=None, description="Hub id or folder; the server's own where you say nothing.")
    revision: Line | None = Field(default=None, description="Revision of that id.")
    weights_digest: Line | None = Field(default=None, description="Filled in; over the weights by name.")


class AdapterFacts(OurBody):
    """What the files say; filled in from them, and refused where you say something else."""

    kind: Line | None = Field(default=None, description="lora, ia3, …")
    rank: int | None = Field(default=None, description="The largest of its modules.")
    alpha: float | None = Field(default=None, description="`lora_alpha` or `alpha` of its config.")
    target_modules: str | list[str] | None = Field(default=None, description="Sorted names, or a pattern.")
    peft_version: Line | None = Field(
        default=None, description="The PEFT that saved it; yours where the file has none."
    )


class DatasetFacts(OurBody):
    """One snapshot of data that the adapter was trained on, or measured with."""

    uri: Line | None = Field(default=None, description="Where it is.")
    digest: Line | None = Field(default=None, description="Of its content: `sha256:…`, or a library's fingerprint.")
    name: Line | None = Field(default=None, description="What people call it.")
    split: Line | None = Field(default=None, description="Which part of it: train, …")
    role: Literal["trained_on", "evaluated_on"] | None = Field(default=None, description="`trained_on` where absent.")


class PreprocessingFacts(OurBody):
    """One step that its data went through."""

    name: Line = Field(description="What people call it, or where it is.")
    digest: Line | None = Field(default=None, description="Of its content: `sha256:…`.")


class TrainingFacts(OurBody):
    """How it was trained."""

    hyperparameters: dict[str, Any] = Field(default_factory=dict, description="Any names and JSON values.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Final numbers of the training itself.")


class CodeFacts(OurBody):
    """The code that trained it."""

    repo: Line | None = Field(default=None, description="URL of the repository.")
    commit: Line | None = Field(default=None, description="Its commit, 7 to 64 lower-case hex digits.")
    dirty: bool | None = Field(default=None, description="Whether files differed from that commit.")


class EnvironmentFacts(OurBody):
    """Where it was trained."""

    python: Line | None = Field(default=None, description="Version of Python.")
    platform: Line | None = Field(default=None, description="System and machine.")
    packages: dict[str, Line] = Field(default_factory=dict, description="Name of a package to its version.")


class Metadata(OurBody):
    """Every field may be left out; own ones go under `labels`."""

    description: Annotated[str, Field(max_length=16384)] | None = Field(default=None, description="For people.")
    task: Line | None = Field(default=None, description="What it is for: summarize, classify, …")
    language: Lines | None = Field(default=None, description="Language codes: en, de, …")
    license: Line | None = Field(default=None, description="SPDX identifier, or a name.")
    author: Line | None = Field(default=None, description="Who made it; `created_by` is who registered it.")
    parents: Lines | None = Field(
        default=None, description="References of the versions it was derived from; kept as NAME@sha256:…"
    )
    merged_from: Lines | None = Field(
        default=None, description="References of the versions that were merged into it; kept as NAME@sha256:…"
    )
    base: BaseFacts = Field(default_factory=BaseFacts, description="Base model.")
    adapter: AdapterFacts = Field(default_factory=AdapterFacts, description="What the files say.")
    datasets: Annotated[list[DatasetFacts], Field(max_length=256)] | None = Field(
        default=None, description="Training data."
    )
    preprocessing: Annotated[list[PreprocessingFacts], Field(max_length=256)] | None = Field(
        default=None, description="What its data went through."
    )
    training: TrainingFacts = Field(default_factory=TrainingFacts, description="Hyper-parameters and metrics.")
    code: CodeFacts = Field(default_factory=CodeFacts, description="Code version.")
    environment: EnvironmentFacts = Field(default_factory=EnvironmentFacts, description="Environment.")
    labels: dict[str, Any] = Field(default_factory=dict, description="Your own fields, any JSON values.")


def read_metadata(text: str) -> dict[str, Any]:
    """Metadata that follow the schema, from their JSON text: the fields that were said.

    Raises:
        InvalidMetadata: naming the first field that does not.
    """
    try:
        said = Metadata.model_validate_json(text)
    except ValidationError as error:
        raise _in_words(error) from None
    return said.model_dump(mode="json", exclude_unset=True)


def _in_words(error: ValidationError) -> InvalidMetadata:
    told = in_words(error)
    if told.field is None:
        return InvalidMetadata("metadata must be a JSON object.", field="metadata")
    field = f"metadata.{told.field}"
    if error.errors()[0]["type"] == "extra_forbidden":
        own = f"metadata.labels.{told.field.rpartition('.')[2]}"
        return InvalidMetadata(f"{field} is not a field of metadata. Put fields of your own under {own}.", field=field)
    return InvalidMetadata(f"metadata.{told.message}", field=field)
