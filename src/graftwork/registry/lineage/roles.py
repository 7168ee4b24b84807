"""ROLES: what one node can be to another; the closed list, and between which kinds of nodes each may be.

`FROM ROLE TO` always reads so that FROM stands on TO: "version trained_on dataset", "application uses route".
"""

from __future__ import annotations

from dataclasses import dataclass

from graftwork.errors import InvalidRequest
from graftwork.registry.lineage.nodes import Node


@dataclass(frozen=True)
class Role:
    meaning: str
    pairs: tuple[tuple[str, str], ...]  #: kinds of FROM and TO
    #: Whether what stands on FROM stands on TO as well: of a version's test data its descendants have nothing.
    carries: bool = True

    def __str__(self) -> str:
        return " or ".join(f"{source} to {target}" for source, target in self.pairs)


ROLES: dict[str, Role] = {
    "based_on": Role("is an adapter of", (("version", "base"),)),
    "built_with": Role("was made by running", (("version", "code"), ("dataset", "code"), ("preprocessing", "code"))),
    "derived_from": Role(
        "is a changed form of",
        (("version", "version"), ("dataset", "dataset"), ("base", "base"), ("code", "code")),
    ),
    "evaluated_on": Role("was measured on", (("version", "dataset"),), carries=False),
    "generated_by": Role("was written by", (("dataset", "version"), ("dataset", "base"))),
    "merged_from": Role("was merged from, among others,", (("version", "version"),)),
    "preprocessed_by": Role("came through", (("version", "preprocessing"), ("dataset", "preprocessing"))),
    "serves": Role("answers with", (("route", "version"),)),
    "trained_on": Role("was trained on", (("version", "dataset"),)),
    "uses": Role("asks", (("application", "route"), ("application", "version"), ("application", "base"))),
}
#: The roles that do not carry.
LEAVES = tuple(name for name, role in ROLES.items() if not role.carries)


@dataclass(frozen=True)
class Edge:
    """One fact: `source` stands on `target`."""

    source: Node
    role: str
    target: Node

    def to_json(self) -> dict[str, str]:
        return {"from": str(self.source), "role": self.role, "to": str(self.target)}


def check_role(role: str, source: str, target: str) -> None:
    """Whether a node of kind `source` may have this role to one of kind `target`.

    Raises:
        InvalidRequest: there is no such role, or not between these kinds.
    """
    if role not in ROLES:
        raise InvalidRequest(f"There is no role {role[:40]!a}; there are {', '.join(ROLES)}.", field="role")
    if (source, target) not in ROLES[role].pairs:
        raise InvalidRequest(f"{role} goes from {ROLES[role]}, not from {source} to {target}.", field="role")
