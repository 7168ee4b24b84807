"""The comparison as a table for people."""

from __future__ import annotations

from typing import Any

_HEAD = (
    "cell",
    "engine",
    "tokens/s",
    "ours/peer",
    "first token ms",
    "between tokens ms",
    "errors",
    "next tokens as ours",
)
_COLUMNS = "{:<9} {:<16} {:>9} {:>9} {:>16} {:>20} {:>6}  {}"


def table(made: dict[str, Any]) -> str:
    """`made` is the report that `--json` prints."""
    lines = [_COLUMNS.format(*_HEAD)]
    for cell, by_peer in made["cells"].items():
        for peer, found in by_peer.items():
            if "failed" in found:
                lines.append(f"{cell:<9} {peer:<16} failed: {found['failed']}")
            else:
                lines += [_row(cell, "ours", found["ours"]), _row(cell, peer, found["peer"], found)]
    machine = made["machine"]
    lines.append(f"\nFirst token: p50/p95. Between tokens: p50/p95/p99. {made['rounds']} pairs of rounds in a cell.")
    lines.append(f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; {made['versions']}")
    return "\n".join(lines)


def _row(cell: str, engine: str, figures: dict[str, Any], found: dict[str, Any] | None = None) -> str:
    found = found or {}
    first, between = figures["ttft_ms"], figures["inter_token_ms"]
    checked = (
        f"{found['first_tokens_as_ours']} of {found['first_tokens_checked']}" if "first_tokens_checked" in found else ""
    )
    return _COLUMNS.format(
        cell,
        engine,
        figures["output_tokens_per_s"],
        found.get("ratio", "") or "",
        f"{first['p50']:.0f}/{first['p95']:.0f}",
        f"{between['p50']:.0f}/{between['p95']:.0f}/{between['p99']:.0f}",
        figures["errors"],
        checked,
    )
