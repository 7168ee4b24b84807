"""The changes of a route's rollouts, as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row

from graftwork.db import Transaction
from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import parse
from graftwork.registry.page import Page, check_page_size
from graftwork.traffic.rollouts import rows


def history_page(
    tx: Transaction, tenant: str, route: str, *, page_size: int, page_token: str | None
) -> Page[Mapping[str, Any]]:
    """The newest first; raises InvalidRequest."""
    check_page_size(page_size)
    before = _place(page_token) if page_token else None
    found = rows.steps(tx, tenant, route, before=before, limit=page_size + 1)
    told = tuple(_told(row) for row in found[:page_size])
    more = len(found) > page_size
    return Page(told, f"{told[-1]['revision']}.{told[-1]['number']}" if more else None)


def _told(row: Row[Any]) -> Mapping[str, Any]:
    return {
        "revision": row.revision,
        "number": row.number,
        "at": row.created_at,
        "actor": row.created_by,
        "kind": row.kind,
        "reason": row.reason,
        "before": parse(row.before) if row.before is not None else None,
        "after": parse(row.after),
        "evidence": parse(row.evidence) if row.evidence is not None else None,
    }


def _place(token: str) -> tuple[int, int]:
    revision, _, number = token.partition(".")
    if not all(part.isascii() and part.isdigit() and len(part) <= 15 for part in (revision, number)):
        raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
    return int(revision), int(number)
