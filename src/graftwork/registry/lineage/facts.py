"""edges_of: what a version's frozen metadata says that it came from; pure.

    {"datasets":      [{"uri": "s3://corpora/eu", "digest": "sha256:…", "role": "trained_on" | "evaluated_on"}],
     "code":          {"repo": "https://github.com/acme/train", "commit": "3f2c…", "dirty": false},
     "preprocessing": [{"name": "clean-html", "digest": "sha256:…"}],
     "parents":       [{"reference": "tone:1.0.0" | "digest": "sha256:…", "role": "derived_from" | "merged_from"}]}

Every list, `digest`, `dirty` and `role` may be left out; the first role of each is meant then. All other keys are
somebody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from graftwork.errors import InvalidRequest
from graftwork.registry.lineage.nodes import DIRTY, Node, parse_node
from graftwork.registry.reference import Reference, parse_reference

Read = TypeVar("Read")
TRAINED_OR_MEASURED = ("trained_on", "evaluated_on")
MADE_FROM = ("derived_from", "merged_from")
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
        InvalidRequest: one of the fields above does not have the form above; `field` names it.
    """
    return [*_datasets(metadata), *_code(metadata), *_preprocessing(metadata), *_parents(metadata)]


def _datasets(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    for field, entry in _entries(metadata, "datasets", {"uri", "digest", "role"}):
        node = _node("dataset", _text(entry, "uri", field), entry, field)
        yield Claim(_role(entry, TRAINED_OR_MEASURED, field), node, field)


def _code(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    if "code" not in metadata:
        return
    entry = _entry(metadata["code"], "code", {"repo", "commit", "dirty"})
    dirty = entry.get("dirty", False)
    if not isinstance(dirty, bool):
        raise _wrong("code.dirty", "must be true or false")
    text = f"code:{_text(entry, 'repo', 'code')}@{_text(entry, 'commit', 'code')}{DIRTY if dirty else ''}"
    node = _parsed(parse_node, text, "code")
    if not node.digest:
        raise _wrong("code.commit", "must be 7 to 64 lower-case hex digits")
    yield Claim("built_with", node, "code")


def _preprocessing(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    for field, entry in _entries(metadata, "preprocessing", {"name", "digest"}):
        yield Claim("preprocessed_by", _node("preprocessing", _text(entry, "name", field), entry, field), field)


def _parents(metadata: Mapping[str, Any]) -> Iterator[Claim]:
    for field, entry in _entries(metadata, "parents", {"reference", "digest", "role"}):
        if ("reference" in entry) == ("digest" in entry):
            raise _wrong(field, "must have either a reference or a digest")
        role = _role(entry, MADE_FROM, field)
        if "digest" in entry:
            yield Claim(role, _parsed(parse_node, f"version:{_text(entry, 'digest', field)}", field), field)
        else:
            yield Claim(role, _parsed(parse_reference, _text(entry, "reference", field), field), field)


def _entries(metadata: Mapping[str, Any], key: str, known: set[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    listed = metadata.get(key, ())
    if not isinstance(listed, list | tuple) or len(listed) > MAX_ENTRIES:
        raise _wrong(key, f"must be a list of at most {MAX_ENTRIES} objects")
    for number, entry in enumerate(listed):
        field = f"{key}.{number}"
        yield field, _entry(entry, field, known)


def _entry(entry: Any, field: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise _wrong(field, "must be an object")
    if unknown := sorted(set(entry) - known):
        raise _wrong(f"{field}.{unknown[0]}", f"is not known there; {', '.join(sorted(known))} are")
    return entry


def _text(entry: Mapping[str, Any], key: str, field: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise _wrong(f"{field}.{key}", "must be text")
    return value


def _role(entry: Mapping[str, Any], allowed: tuple[str, ...], field: str) -> str:
    role = entry.get("role", allowed[0])
    if role not in allowed:
        raise _wrong(f"{field}.role", f"must be one of {', '.join(allowed)}")
    return str(role)


def _node(kind: str, name: str, entry: Mapping[str, Any], field: str) -> Node:
    bare = _parsed(parse_node, f"{kind}:{name}", field)
    if entry.get("digest") is None:
        return bare
    node = _parsed(parse_node, f"{kind}:{name}@{_text(entry, 'digest', field)}", field)
    if node.name != name:
        raise _wrong(f"{field}.digest", "must be like sha256:… in lower-case hex digits")
    return node


def _parsed(parse: Callable[[str], Read], text: str, field: str) -> Read:
    try:
        return parse(text)
    except InvalidRequest as exc:
        raise InvalidRequest(f"metadata.{field}: {exc.message}", field=f"metadata.{field}") from exc


def _wrong(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"metadata.{field} {why}.", field=f"metadata.{field}")
