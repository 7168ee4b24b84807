"""What an import decides before anything is sent: the name, the signatures, the metadata; values in, values out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from graftwork.access.names import check_name
from graftwork.artifacts.packages.package import Json, Package
from graftwork.artifacts.signing.keys import read_public
from graftwork.artifacts.signing.signature import MAX_SIGNATURE_BYTES, verify
from graftwork.errors import InvalidRequest, Refused
from graftwork.protocol.evaluations import EvaluationBody
from graftwork.registry.documents.document import Content, check_content

#: The label under which an imported version says where it is from.
IMPORTED_FROM: Final = "imported_from"
#: Metadata that name versions of the registry.
_REFERENCES: Final = ("parents", "merged_from")


def named(
    package: Package, source: str, reference: str | None, is_here: Callable[[str], bool]
) -> tuple[str, str | None]:
    """Name and version: those of `reference`, else those that the package says; raises InvalidRequest.

    No version where the same bytes are here under that name already, whatever their version.
    """
    if reference is None and package.record.adapter is None:
        raise InvalidRequest(f"Say what to call it: {source} has no name of an adapter.", field="reference")
    name, _, semver = (reference or package.record.adapter or "").partition(":")
    check_name(name, what="adapter")
    if not semver and not is_here(f"{name}@{package.record.digest}"):
        semver = package.record.semver or ""
    return name, semver or None


def check_signatures(package: Package, public_key: bytes | None) -> None:
    """Check that every signature holds under the key beside it, and where a key is given, that one is of that key.

    Raises:
        Refused: one does not, or none is. InvalidRequest: a key is none.
    """
    wanted = None if public_key is None else read_public(public_key).fingerprint
    found = set[str]()
    for one in package.record.signatures:
        key = read_public(one.public_key.encode())
        verify(package.kept[one.bundle].read("A signature", MAX_SIGNATURE_BYTES), package.manifest, key)
        found.add(key.fingerprint)
    if wanted is not None and wanted not in found:
        raise Refused(f"The package has no valid signature of the key {wanted}; nothing was imported.")


def checked_kept(package: Package) -> list[Json]:
    """The evaluations in a package, all of them read; raises InvalidRequest where one or a document is not right."""
    for document in package.record.documents:
        check_content(Content(**document.model_dump()))
    found = list(package.evaluations())
    for one in found:
        for field, digest in EvaluationBody.read(json.dumps(one).encode()).blobs():
            if digest not in package.kept:
                raise InvalidRequest(f"The file {digest} that an evaluation names is not in the package.", field=field)
    return found


def metadata_of(package: Package, origin: Mapping[str, Any], is_here: Callable[[str], bool]) -> tuple[Json, list[str]]:
    """The metadata that were said at the first registration, with where they are from; and what there is to tell.

    Versions that are named and not here, by `is_here`, are kept as words beside where it is from.
    """
    record, notes = package.record, list[str]()
    earlier = {key: getattr(record, key) for key in ("adapter", "semver", "created_at", "created_by")}
    label = {**origin, **{key: value for key, value in earlier.items() if value is not None}}
    told = dict(record.metadata)
    for field in _REFERENCES:
        absent = [one for one in told.get(field) or () if not is_here(str(one))]
        if absent:
            missing = ", ".join(map(str, absent))
            notes.append(f"metadata.{field}: {missing} is not here; kept under labels.{IMPORTED_FROM}.")
            label[field] = absent
            told[field] = [one for one in told[field] if one not in absent]
    labels = dict(told.get("labels") or {})
    if IMPORTED_FROM in labels:
        label["before"] = labels[IMPORTED_FROM]
    return {**told, "labels": {**labels, IMPORTED_FROM: label}}, notes
