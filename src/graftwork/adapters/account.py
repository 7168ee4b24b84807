"""The account of an adapter: what becomes of every tensor, and why an adapter is refused."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from graftwork.adapters.companions.companions import NO_COMPANIONS, Companions, read_companions
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.kinds import kind_of
from graftwork.adapters.outline import Outline
from graftwork.adapters.plain_text import is_text, plain
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.errors import Refused


@dataclass(frozen=True)
class Account:
    """Whether an adapter can be served rightly on one base, tensor by tensor.

    `rank` is the largest one used, `bytes` those of the tensors used, `ok` is False as soon as there is a problem.
    """

    ok: bool
    kind: str | None
    base: str
    rank: int
    bytes: int
    tensors: tuple[TensorEntry, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    #: What the folder carries beside its weights, and is used for this adapter's answers.
    companions: Companions = NO_COMPANIONS

    @property
    def unused(self) -> tuple[TensorEntry, ...]:
        return tuple(entry for entry in self.tensors if not entry.used)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "kind": self.kind,
            "base": self.base,
            "rank": self.rank,
            "bytes": self.bytes,
            "tensors": [_to_json(entry) for entry in self.tensors],
            "unused": [entry.name for entry in self.unused],
            "problems": list(self.problems),
            "warnings": list(self.warnings),
            "companions": self.companions.to_json(),
        }


def account_folder(folder: Path, outline: Outline, *, max_rank: int) -> Account:
    """Account for every tensor of the adapter in `folder` against a base; a bad adapter gives `ok=False`, no error."""
    try:
        opened = AdapterFolder.open(folder)
        kind = kind_of(opened.config)
        entries, problems, warnings = kind.account(opened, outline, max_rank)
    except Refused as refusal:
        return _refused(outline, [refusal.message, *refusal.problems])
    used = [entry for entry in entries if entry.used]
    if not used and not problems:
        problems = ["No tensor of this adapter acts on the base."]
    found = read_companions(folder, outline.tokenizer, outline.vocab_size)
    problems = [*problems, *found.problems, *_unreachable(found.companions, used, outline)]
    nameless = _nameless(found.companions, used, outline)
    return Account(
        ok=not problems,
        kind=kind.name,
        base=outline.base,
        rank=max((entry.rank or 0 for entry in used), default=0),
        bytes=sum(entry.bytes for entry in used),
        tensors=tuple(_plain_entry(entry) for entry in entries),
        problems=tuple(plain(problem) for problem in problems),
        warnings=tuple(plain(one) for one in (*opened.warnings, *warnings, *found.warnings, *nameless)),
        companions=found.companions,
    )


def _to_json(entry: TensorEntry) -> dict[str, Any]:
    """JSON has no infinity: a number that overflowed is none."""
    facts = asdict(entry)
    numbers = {key: None for key, value in facts.items() if isinstance(value, float) and not math.isfinite(value)}
    return facts | numbers


def _plain_entry(entry: TensorEntry) -> TensorEntry:
    if is_text(entry.name) and is_text(entry.reason):
        return entry
    return replace(entry, name=plain(entry.name), reason=plain(entry.reason), module=plain(entry.module or "") or None)


def _nameless(companions: Companions, used: list[TensorEntry], outline: Outline) -> list[str]:
    """Rows of vocabulary that no token's name leads to: they can be generated, but neither written nor asked for."""
    rows = max((entry.tokens or 0 for entry in used), default=0)
    named = {token.id for token in companions.added_tokens}
    nameless = [number for number in range(outline.vocab_size, rows) if number not in named]
    if not nameless:
        return []
    return [
        f"The adapter has rows for tokens {nameless[0]} to {nameless[-1]}, which the base has not, and no names for "
        f"{len(nameless)} of them: bring the tokenizer files that were trained with (added_tokens.json)."
    ]


def _unreachable(companions: Companions, used: list[TensorEntry], outline: Outline) -> list[str]:
    """Added tokens that have no row in the embedding that the adapter is served with."""
    embed = outline.embed.path if outline.embed else None
    rows = max((entry.tokens or 0 for entry in used if entry.module == embed), default=0)
    size = max(rows, outline.vocab_size)
    beyond = [token for token in companions.added_tokens if token.id >= size]
    if not beyond:
        return []
    last = max(beyond)
    return [
        f"Token {last.id} ({last.content[:80]!r}) is added, but the embedding has {size} rows: save the adapter with "
        "its resized embed_tokens and lm_head (modules_to_save)."
    ]


def _refused(outline: Outline, problems: list[str]) -> Account:
    return Account(False, None, outline.base, 0, 0, (), tuple(plain(problem) for problem in problems), ())
