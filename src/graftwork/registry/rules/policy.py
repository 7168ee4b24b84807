"""Policy: what a tenant demands of a version before it enters a stage or answers requests; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from graftwork.errors import Forbidden
from graftwork.protocol.canonical import canonical, sha256

if TYPE_CHECKING:
    from graftwork.registry.versions import Version

#: What a version passes: on its way into a stage, and with each request.
Gate = Literal["staging", "production", "serving"]


@dataclass(frozen=True)
class ApprovalRule:
    """When a version counts as approved."""

    needed: int = 1  #: how many must approve
    by: frozenset[str] | None = None  #: who may approve and reject; None: anybody
    author_may_approve: bool = True
    #: One rejection that stands is enough; otherwise as many reject as are needed to approve.
    rejection_vetoes: bool = True

    def may_decide(self, actor: str) -> bool:
        return self.by is None or actor in self.by

    def may_approve(self, actor: str, author: str) -> bool:
        return self.may_decide(actor) and (self.author_may_approve or actor != author)


@dataclass(frozen=True)
class Policy:
    """A tenant's, or one adapter's, which then holds for it instead."""

    approval: ApprovalRule = ApprovalRule()
    #: Fingerprints of the public keys that must all have signed a version where `signature` is demanded.
    signature_keys: frozenset[str] = frozenset()
    #: By gate, names in DEMANDS.
    require: Mapping[Gate, tuple[str, ...]] = field(default_factory=dict)

    @property
    def etag(self) -> str:
        """Another one for another policy."""
        return sha256(canonical(self.to_json(), what="policy"))

    def to_json(self) -> dict[str, Any]:
        """The `spec` of its document."""
        rule = self.approval
        return {
            "approval": {
                "needed": rule.needed,
                "by": None if rule.by is None else sorted(rule.by),
                "authorMayApprove": rule.author_may_approve,
                "rejectionVetoes": rule.rejection_vetoes,
            },
            "signature": {"keys": sorted(self.signature_keys)},
            "require": {gate: list(self.require.get(gate, ())) for gate in ("staging", "production", "serving")},
        }

    @classmethod
    def from_json(cls, spec: Mapping[str, Any]) -> Policy:
        """The way back from `to_json`; what documents may leave out has been filled in."""
        approval = spec["approval"]
        rule = ApprovalRule(
            approval["needed"],
            None if approval["by"] is None else frozenset(approval["by"]),
            approval["authorMayApprove"],
            approval["rejectionVetoes"],
        )
        demands = {gate: tuple(words) for gate, words in spec["require"].items() if words}
        return cls(rule, frozenset(spec["signature"]["keys"]), demands)


#: What events about a tenant's policy have as their subject.
POLICY_SUBJECT: Final = "policy"
POLICY_SET: Final = "policy.set"
POLICY_REMOVED: Final = "policy.removed"
#: Where nobody set one: nothing is demanded.
OPEN: Final = Policy()


def may_enter(gate: Gate, version: Version, policy: Policy, *, returning: bool = False) -> tuple[str, ...]:
    """Why the version may not pass the gate; empty where it may.

    Args:
        returning: a rollback brings it back to production, where it has been before.
    """
    return tuple(_lacks(gate, version, policy, returning).values())


def require(gate: Gate, version: Version, policy: Policy, *, returning: bool = False) -> None:
    """Raises Forbidden, with every reason and what mends it, where the version may not pass the gate."""
    lacks = _lacks(gate, version, policy, returning)
    mends = " and ".join(f"`graftwork {MENDS[demand].format(version.label)}`" for demand in lacks)
    forbid(f"The policy keeps {version.label} out of {gate}", tuple(lacks.values()), f" Next: {mends}.")


def forbid(what: str, reasons: Collection[str], mend: str = "") -> None:
    if reasons:
        raise Forbidden(f"{what}: {'; '.join(reasons)}.{mend}", problems=tuple(reasons))


def _lacks(gate: Gate, version: Version, policy: Policy, returning: bool) -> dict[str, str]:
    """By demand, why it is not met."""
    found = {demand: DEMANDS[demand](version, policy, returning) for demand in policy.require.get(gate, ())}
    return {demand: reason for demand, reason in found.items() if reason is not None}


def _approved(version: Version, policy: Policy, returning: bool) -> str | None:
    return None if version.approval == "approved" else f"its approval is {version.approval}"


def _signed(version: Version, policy: Policy, returning: bool) -> str | None:
    """A signature is recorded only where it held over the version's files, which never change."""
    if not policy.signature_keys:  # a demand that nothing can meet is not one that everything meets
        return "the policy does not say by which keys it must be signed"
    missing = sorted(policy.signature_keys.difference(version.signed_by))
    return f"it is not signed by {' and '.join(missing)}" if missing else None


def _from_staging(version: Version, policy: Policy, returning: bool) -> str | None:
    return None if returning or version.stage in ("staging", "production") else f"its stage is {version.stage}"


#: By name in a policy: why a version does not meet the demand, or None.
DEMANDS: Final[Mapping[str, Callable[[Version, Policy, bool], str | None]]] = {
    "approval": _approved,
    "signature": _signed,
    "staging": _from_staging,
}
#: By name too: the verb that meets it, of a version.
MENDS: Final[Mapping[str, str]] = {
    "approval": "approve {}",
    "signature": "sign {} --key PEM",
    "staging": "stage set {} staging",
}
