"""Copies as they come from the engine, and what becomes of them in a database."""

from __future__ import annotations

from typing import Any

from graftwork.traffic.shadows.copied import Copied, Side

ANSWERS, SHADOWS = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def copied(number: int = 1, answer: str = "yes", shadow: str | None = "yes", **more: Any) -> Copied:
    """A request with both sides; `error` is how the copy ended where it has no answer."""
    side: dict[str, Any] = {"error": more.pop("error", None)}
    side |= {"latency_s": more.pop("took_s", 0.2), "mean_logprob": more.pop("logprob", None)}
    facts: dict[str, Any] = {
        "tenant": "local",
        "request_id": f"r{number}",
        "at": f"2026-03-01T12:00:00.{number:06}Z",
        "door": "/v1/x",
        "route": "support",
        "rollout": "support/1",
        "arm": "candidate",
        "user_id": None,
        "sampled": False,
    }
    return Copied(
        **facts | more,
        answer=Side(
            "support:1.0.0",
            ANSWERS,
            (answer,),
            latency_s=0.1,
            output_tokens=1,
            mean_logprob=-0.1,
            finish_reason="stop",
        ),
        shadow=Side("support:2.0.0", SHADOWS, () if shadow is None else (shadow,), output_tokens=1, **side),
    )
