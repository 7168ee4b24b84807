"""Entry: a record on its way to the database, with what was said; and how a batch of them is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database
from graftwork.db.schema import prediction_texts, predictions
from graftwork.traffic.gates.signals import signals_of
from graftwork.traffic.records import usage
from graftwork.traffic.records.record import Record
from graftwork.traffic.records.recording import hashers_of
from graftwork.traffic.records.vault import Vault, content_of


@dataclass(frozen=True)
class Entry:
    """`prompt` and `answer` are hashed, and written only with `keep_text`; without `keep` it only counts as usage."""

    record: Record
    prompt: Any = None
    answer: Sequence[str] | None = None
    keep: bool = True
    keep_text: bool = False
    size: int = 0  #: about how many bytes of memory it holds


class Entries:
    """Writes entries, from one thread."""

    def __init__(self, database: Database, vault: Vault, clock: Clock = utc_now) -> None:
        self._database, self._vault, self._clock = database, vault, clock

    def write(self, entries: Sequence[Entry]) -> None:
        """All of them in one transaction, or none.

        Raises:
            Unavailable: not now.
        """
        with self._database.transaction() as tx:
            kept = [entry for entry in entries if entry.keep]
            tenants = {entry.record.tenant for entry in kept}
            hashers = hashers_of(tx, self._vault, tenants, at=timestamp(self._clock()))
            rows = [_hashed(entry, hashers[entry.record.tenant]).to_row() for entry in kept]
            if rows:
                tx.execute(predictions.insert(), rows)
            if texts := [self._sealed(entry) for entry in kept if entry.keep_text]:
                tx.execute(prediction_texts.insert(), texts)
            usage.add(tx, [entry.record for entry in entries])

    def _sealed(self, entry: Entry) -> Mapping[str, Any]:
        record = entry.record
        said = {"prompt": entry.prompt, "answer": entry.answer}
        sealed = self._vault.seal(record.tenant, record.request_id, said)
        return {"tenant": record.tenant, "request_id": record.request_id, "at": record.at, "sealed": sealed}


def _hashed(entry: Entry, hashed: Any) -> Record:
    """The record with what its texts say by themselves, and with their hashes."""
    signals = [signals_of(text) for text in entry.answer or ()]
    return replace(
        entry.record,
        empty=entry.record.outcome == "ok" and bool(signals) and all(one.empty for one in signals),
        repetitive=any(one.repetitive for one in signals),
        refusal=any(one.refusal for one in signals),
        prompt_hash=None if entry.prompt is None else hashed(content_of(entry.prompt)),
        answer_hash=None if entry.answer is None else hashed(content_of(list(entry.answer))),
    )
