"""Statement: what is signed of a bundle: the path and the SHA-256 of each file, as in-toto writes it.

The predicate is that of OpenSSF model signing 1.0 (github.com/ossf/model-signing-spec): resources in the order of
their paths' parts, and a subject whose digest is SHA-256 over their digests in that order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import PREFIX, hex_of
from graftwork.errors import Refused

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"
#: Files that a message names at most.
_SHOWN: Final = 8


def statement_of(manifest: Manifest, name: str) -> bytes:
    """The statement about the files of `manifest`, in which they are called `name` (nothing depends on it)."""
    files = sorted(manifest.files, key=lambda file: PurePosixPath(file.path).parts)
    resources = [{"name": file.path, "algorithm": "sha256", "digest": hex_of(file.digest)} for file in files]
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": _root(resource["digest"] for resource in resources)}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
            "resources": resources,
        },
    }
    return json.dumps(statement).encode()


def signed_files(statement: Mapping[str, Any]) -> dict[str, str]:
    """The digest of each path that a statement speaks of.

    Raises:
        Refused: it is no statement of model signing about whole files by SHA-256, or contradicts itself.
    """
    if statement.get("_type") != STATEMENT_TYPE or statement.get("predicateType") != PREDICATE_TYPE:
        raise Refused(f"The signature is not one of OpenSSF model signing ({PREDICATE_TYPE}).")
    try:
        serialization, resources = statement["predicate"]["serialization"], statement["predicate"]["resources"]
        if (serialization["method"], serialization["hash_type"]) != ("files", "sha256"):
            raise Refused("The signature is not over whole files by SHA-256; sign with the defaults of model-signing.")
        [subject] = statement["subject"]
        files = {_text(one["name"]): PREFIX + _text(one["digest"]) for one in resources}
        root = _root(_text(one["digest"]) for one in resources)
        whole = len(files) == len(resources) and all(one["algorithm"] == "sha256" for one in resources)
        if not whole or subject["digest"]["sha256"] != root:
            raise Refused("The signed statement contradicts itself: its digest is not that of the files it lists.")
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise Refused("The signed statement lacks what OpenSSF model signing says it holds.") from exc
    return files


def check_same_files(signed: Mapping[str, str], manifest: Manifest, *, apart: str) -> None:
    """Check that exactly the files of a version were signed; `apart` is the digest of the signature itself.

    The signature may lie among the files, as model-signing leaves it beside them: it cannot speak of itself.

    Raises:
        Refused: naming the files that differ.
    """
    held = {file.path: file.digest for file in manifest.files}
    wanted = {path: digest for path, digest in held.items() if digest != apart or path in signed}
    problems = [f"{path} was signed and is not there" for path in signed.keys() - held.keys()]
    problems += [f"{path} is there and was not signed" for path in wanted.keys() - signed.keys()]
    problems += [
        f"{path} has other bytes than were signed"
        for path, digest in wanted.items()
        if path in signed and signed[path] != digest
    ]
    if problems:
        shown = sorted(problems)[:_SHOWN]
        raise Refused(f"The signature is over other files than this version's: {shown[0]}.", problems=shown)


def _root(digests: Iterable[str]) -> str:
    seen = hashlib.sha256()
    for digest in digests:
        seen.update(bytes.fromhex(digest))
    return seen.hexdigest()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
