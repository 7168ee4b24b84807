"""Signature: what an answer says about who gave it: in its headers, its body and its last chunk."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from graftwork.traffic.decision import Decision


@dataclass(frozen=True)
class Signature:
    """Who answered one request, and why that one."""

    request_id: str
    decision: Decision
    base_digest: str
    #: Of the task that asked, `sentiment/3`; None where a request asked by itself.
    task: str | None = None
    #: Whether the header X-Graftwork-Decision says all that is known of the decision.
    debug: bool = False

    @property
    def model(self) -> str:
        """`name:1.4.0`, `a:1.0.0*0.7+b:1.0.0*0.3`, or the base's name."""
        return self.decision.model

    @property
    def version(self) -> str | None:
        if self.decision.composition is not None:
            return "composed"
        return self.decision.version.semver if self.decision.version else None

    @property
    def digest(self) -> str:
        """Of the adapter version or the composition; of the base's weights where the base itself answered."""
        return self.decision.digest or self.base_digest

    def headers(self) -> dict[str, str]:
        """Beside X-Graftwork-Request, which every answer carries."""
        return {
            "x-graftwork-version": self.version or "base",
            "x-graftwork-digest": self.digest,
            "x-graftwork-route": self.decision.route,
            "x-graftwork-arm": self.decision.arm,
            "x-graftwork-decision": self._decision(),
            **({"x-graftwork-task": self.task} if self.task else {}),
            **self._session(),
            **self._deprecation(),
        }

    def _decision(self) -> str:
        """What won; where asked for, with its parameters (RFC 8941)."""
        found = self.decision
        if not self.debug:
            return found.reason
        facts = {"revision": found.revision, "rule": found.rule, "reference": found.reference}
        told = "".join(f"; {name}={_item(value)}" for name, value in facts.items() if value is not None)
        return f"{found.reason}{told}" + (f"; point={found.point:.9f}" if found.point is not None else "")

    def _session(self) -> dict[str, str]:
        turn = self.decision.turn
        if turn is None:
            return {}
        return {"x-graftwork-session": turn.state + (f"; reason={turn.why}" if turn.why else "")}

    def _deprecation(self) -> dict[str, str]:
        """Deprecation (RFC 9745: a date as in RFC 9651) and Sunset (RFC 8594: an HTTP date), of several the first."""
        found = [version.deprecated for version in self.decision.versions if version.deprecated is not None]
        if not found:
            return {}
        since = min(datetime.fromisoformat(one.since) for one in found)
        until = [datetime.fromisoformat(one.until) for one in found if one.until is not None]
        sunset = {"sunset": format_datetime(min(until), usegmt=True)} if until else {}
        return {"deprecation": f"@{int(since.timestamp())}", **sunset}

    def to_json(self) -> dict[str, Any]:
        composition = self.decision.composition
        parts = [
            {"model": version.label, "digest": version.digest, "scale": scale}
            for version, scale in (composition.parts if composition else ())
        ]
        deprecated = [
            {"model": version.label, **version.deprecated.to_json()}
            for version in self.decision.versions
            if version.deprecated is not None
        ]
        return {
            "request": self.request_id,
            "version": self.version,
            "digest": self.digest,
            "route": self.decision.route,
            "arm": self.decision.arm,
            "decision": self.decision.reason,
            **({"task": self.task} if self.task else {}),
            **({"session": self.decision.turn.to_json()} if self.decision.turn else {}),
            **({"revision": self.decision.revision, "rule": self.decision.rule} if self.decision.rule else {}),
            **({"adapters": parts} if parts else {}),
            **({"deprecated": deprecated} if deprecated else {}),
        }


def _item(value: int | str) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'
