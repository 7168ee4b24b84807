"""GrammarMasks: finds what constrained rows may say next in a thread of its own, while the step computes."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from graftwork.engine.row_grammar import Mask, RowGrammar
from graftwork.engine.sequence import Sequence

#: By row id.
Masks = dict[str, Mask]

_NONE: Future[Masks] = Future()
_NONE.set_result({})


class GrammarMasks:
    """Has no thread until a row has a grammar; a step without such rows costs nothing."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="graftwork-mask")

    def begin(self, rows: Iterable[Sequence]) -> Future[Masks]:
        """The masks of those rows that have a grammar; nobody else may touch these until they are there."""
        constrained = [(row.id, row.grammar) for row in rows if row.grammar is not None]
        return self._pool.submit(_find, constrained) if constrained else _NONE

    def close(self) -> None:
        self._pool.shutdown(wait=True)


def _find(rows: list[tuple[str, RowGrammar]]) -> Masks:
    return {key: grammar.mask() for key, grammar in rows}
