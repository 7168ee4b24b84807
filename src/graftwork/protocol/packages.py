"""PackageRecord: what a package says of the version in it, and of what was kept with it, as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.protocol.documents import MAX_PEM, DocumentBody
from graftwork.protocol.registry import OurBody

#: As many as a version may have.
MAX_DOCUMENTS = 1000
MAX_SIGNATURES = 100
MAX_EVALUATIONS = 10_000
Line = Annotated[str, Field(max_length=1024)]


class PackageBase(OurBody):
    """The base model that the version is bound to: import needs a server of the same."""

    name: Line
    weights_digest: Line
    source: Line | None = None
    revision: Line | None = None
    architecture: Line | None = None


class PackageSignature(OurBody):
    """A signature file, which lies beside the record under its digest, and the public key that it holds under."""

    bundle: str = Field(max_length=71)
    size: int = Field(ge=0)
    public_key: str = Field(max_length=MAX_PEM)


class PackageFile(OurBody):
    """A file beside the record: an evaluation in JSON, or what one names by its digest: its examples, or a report."""

    digest: str = Field(max_length=71)
    size: int = Field(ge=0)


class PackageRecord(OurBody):
    """`.graftwork/record.json`. The manifest's digest is the version's identity, wherever its files go."""

    format: Literal[1] = 1
    adapter: Line | None = None
    semver: Line | None = None
    digest: str = Field(max_length=71)
    manifest: dict[str, Any]
    metadata: dict[str, Any] = Field(default_factory=dict)
    base: PackageBase | None = None
    created_at: Line | None = None
    created_by: Line | None = None
    documents: list[DocumentBody] = Field(default_factory=list, max_length=MAX_DOCUMENTS)
    signatures: list[PackageSignature] = Field(default_factory=list, max_length=MAX_SIGNATURES)
    evaluations: list[PackageFile] = Field(default_factory=list, max_length=MAX_EVALUATIONS)
    evaluation_files: list[PackageFile] = Field(default_factory=list, max_length=MAX_EVALUATIONS)
