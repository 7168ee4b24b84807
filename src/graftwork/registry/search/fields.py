"""FIELDS: what filters can ask of a version, by name."""

from __future__ import annotations

from difflib import get_close_matches

from sqlalchemy import and_, exists

from graftwork.adapters.kinds import KIND_NAMES
from graftwork.db.index_terms import VERSION
from graftwork.db.schema import adapters, aliases, approvals, deprecations, signatures, tags, versions
from graftwork.registry.rules.approval import Verdict
from graftwork.registry.rules.stages import STAGES
from graftwork.registry.search.filter import Field
from graftwork.registry.search.searched import (
    Clause,
    Column,
    Facts,
    Metric,
    OfAdapter,
    Said,
    Searched,
    Version,
    Wrong,
    of,
)


def _stands(verdict: Verdict) -> Clause:
    """Whether a row of approvals is that verdict, and its author's last."""
    later = approvals.alias()
    changed = exists().where(
        of(later, approvals), later.c.created_by == approvals.c.created_by, later.c.number > approvals.c.number
    )
    return and_(approvals.c.verdict == verdict, ~changed)


#: By name; names that end in a dot take a part: `tag.region`. A new field is one line here.
FIELDS: dict[str, Searched] = {
    "name": Column("the adapter's name", versions.c.adapter, "text", indexed=True),
    "display_name": OfAdapter("the adapter's name for people", adapters.c.display_name),
    "description": OfAdapter("what the adapter's description says", adapters.c.description),
    "version": Version("the semantic version, in its order: `version >= 1.4`", (VERSION,)),
    "digest": Column("its first 12 digits or more", versions.c.digest, "digest", indexed=True),
    "stage": Column("`development`, `staging`, `production` or `archived`", versions.c.stage, among=STAGES),
    "alias": Said("a name that points at the version now", aliases.c.alias),
    "approved_by": Said("who approved it, and has not rejected it since", approvals.c.created_by, _stands("approved")),
    "rejected_by": Said("who rejected it, and has not approved it since", approvals.c.created_by, _stands("rejected")),
    "signed_by": Said("fingerprint of a public key that it is signed under", signatures.c.fingerprint),
    "deprecated": Said("the message of its deprecation: `has deprecated`", deprecations.c.message),
    "kind": Column("of the adapter: `lora`, `ia3`, …", versions.c.kind, among=KIND_NAMES),
    "base": Column("the base's name", versions.c.base),
    "base_digest": Column(
        "first 12 digits or more of the digest of the base's weights", versions.c.base_digest, "digest"
    ),
    "rank": Column("the largest rank of its modules", versions.c.rank, "number", indexed=True),
    "bytes": Column("of its tensors", versions.c.bytes, "number", indexed=True),
    "created_at": Column("when it was pushed, a date or a time", versions.c.created_at, "time", indexed=True),
    "created_by": Column("who pushed it", versions.c.created_by),
    "owner": Column("the same", versions.c.created_by),
    "task": Facts("metadata `task`", ("meta.task",)),
    "language": Facts("a language in metadata `language`", ("meta.language",)),
    "license": Facts("metadata `license`", ("meta.license",)),
    "dataset": Facts("`uri` or `name` of one in metadata `datasets`", ("meta.datasets.uri", "meta.datasets.name")),
    "r": Facts("`r` in adapter_config.json", ("config.r",)),
    "alpha": Facts("`lora_alpha` or `alpha` in adapter_config.json", ("config.lora_alpha", "config.alpha")),
    "target_modules": Facts("a module in `target_modules` of adapter_config.json", ("config.target_modules",)),
    "config.": Facts("any field of adapter_config.json", ("config.",)),
    "meta.": Facts("any metadata, objects by dots: `meta.training.metrics.loss`", ("meta.",)),
    "label.": Facts("what metadata has under `labels`", ("meta.labels.",)),
    "tag.": Facts("a tag of the version or of its adapter", ("",), tags),
    "metrics.": Metric("the value of a metric in the version's last evaluation that has it"),
}


def searched(field: Field) -> Searched:
    """The entry of FIELDS that a field names.

    Raises:
        Wrong: there is no such field, or a part is missing.
    """
    found = FIELDS.get(field.name)
    if found is not None and bool(field.part) == field.name.endswith("."):
        return found
    if field.name.rstrip(".") + "." in FIELDS:
        raise Wrong(field.at, f"{field.name.rstrip('.')} needs a name behind a dot, as in {field.name.rstrip('.')}.x.")
    near = get_close_matches(field.name, FIELDS, n=1)
    meant = f"did you mean {near[0]}? The fields" if near else "the fields"
    raise Wrong(field.at, f"there is no field {str(field)[:80]!a}; {meant} are {', '.join(FIELDS)}.")
