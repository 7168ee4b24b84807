"""edges_of: what a version's frozen metadata says that it came from; pure.

It reads the fields `datasets`, `code`, `preprocessing`, `parents` and `merged_from` of `protocol/metadata.py`. What
names nothing (a data set without URI and name, code without a commit) is no fact about anything, and passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from graftwork.artifacts.digest import is_digest
from graftwork.errors import InvalidMetadata, InvalidRequest
from graftwork.registry.lineage.nodes import DIRTY, Node, parse_node
from graftwork.registry.reference import Reference, parse_reference

Read = TypeVar("Read")
#: Of each list.
MAX_ENTRIES = 1000


@dataclass(frozen=True)
class Claim:
    """That the version has `role` to a node, or to the version that a reference names; `field` says where."""

    role: str
    target: Node | Reference
    field: str


def edges_of(metadata: Mapping[str, Any]) -> list[Claim]:
    """What the metadata of a version says of its origin, in the order it says so.

    Raises:
        InvalidMetadata: one of the fields above cannot be read as what it should name; `field` names it.
    """
    return [
        *_datasets(metadata),
        *_code(metadata),
        *_preprocessing(metadata),
        *_versions(metadata, "parents", "derived_from"),
        *_versions(metadata, "merged_from", "merged_from"),
    ]


def _datasets(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    for field, entry in _entries(metadata, "datasets"):
        if name := _text(entry, "uri", field) or _text(entry, "name", field):
            role = _text(entry, "role", field) or "trained_on"
            if role not in ("trained_on", "evaluated_on"):
                raise _wrong(f"{field}.role", "must be trained_on or evaluated_on")
            yield Claim(role, _node("dataset", name, _text(entry, "digest", field), field), field)


def _code(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    entry = _entry(metadata.get("code", {}), "code")
    repo, commit = _text(entry, "repo", "code"), _text(entry, "commit", "code")
    if not repo or not commit:
        return
    node = _parsed(parse_node, f"code:{repo}@{commit}{DIRTY if entry.get('dirty') else ''}", "code")
    if not node.digest:
        raise _wrong("code.commit", "must be 7 to 64 lower-case hex digits")
    yield Claim("built_with", node, "code")


def _preprocessing(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    for field, entry in _entries(metadata, "preprocessing"):
        if name := _text(entry, "name", field):
            yield Claim("preprocessed_by", _node("preprocessing", name, _text(entry, "digest", field), field), field)


def _versions(metadata: Mapping[str, Any], key: str, role: str) -> Iterator[Claim]:
    for number, text in enumerate(_listed(metadata, key)):
        if not isinstance(text, str):
            raise _wrong(f"{key}.{number}", "must be the reference of a version")
        yield Claim(role, _parsed(parse_reference, text, f"{key}.{number}"), f"{key}.{number}")


def _listed(metadata: Mapping[str, Any], key: str) -> list[Any] | tuple[Any, ...]:
    listed = metadata.get(key) or ()
    if not isinstance(listed, list | tuple) or len(listed) > MAX_ENTRIES:
        raise _wrong(key, f"must be a list of at most {MAX_ENTRIES}")
    return listed


def _entries(metadata: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, entry in enumerate(_listed(metadata, key)):
        yield f"{key}.{number}", _entry(entry, f"{key}.{number}")


def _entry(entry: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise _wrong(field, "must be an object")
    return entry


def _text(entry: Mapping[str, Any], key: str, field: str) -> str:
    value = entry.get(key) or ""
    if not isinstance(value, str):
        raise _wrong(f"{field}.{key}", "must be text")
    return value


def _node(kind: str, name: str, digest: str, field: str) -> Node:
    """With the digest where it is one; a library's fingerprint says nothing to others."""
    bare = _parsed(parse_node, f"{kind}:{name}", field)
    if not is_digest(digest):
        return bare
    return _parsed(parse_node, f"{kind}:{name}@{digest}", field)


def _parsed(parse: Callable[[str], Read], text: str, field: str) -> Read:
    try:
        return parse(text)
    except InvalidRequest as exc:
        raise InvalidMetadata(f"metadata.{field}: {exc.message}", field=f"metadata.{field}") from exc


def _wrong(field: str, why: str) -> InvalidMetadata:
    return InvalidMetadata(f"metadata.{field} {why}.", field=f"metadata.{field}")
