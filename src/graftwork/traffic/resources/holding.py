"""holding: which versions the live resources of a kind name, so that they are not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from graftwork.db import Transaction
from graftwork.registry.reference import Selector, parse_reference
from graftwork.registry.retention.holders import Claims, Holder, HolderRule
from graftwork.registry.retention.holders import Kind as Word
from graftwork.registry.versions import Version
from graftwork.traffic.resources import rows
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Made, Spec


def holding(
    kind: Kind[Spec, Made], word: Word, names: Callable[[Made], Iterable[str]], verb: str
) -> Callable[[Transaction, str], HolderRule]:
    """Who needs a version because a reference that a resource `names` means it now; `verb` says how, to people."""

    def read(tx: Transaction, tenant: str) -> HolderRule:
        named: dict[str, set[tuple[str, Selector]]] = defaultdict(set)
        for one in rows.live_by_name(tx, kind, tenant):
            for reference in map(parse_reference, names(one)):
                if reference.tenant in (None, tenant):
                    named[reference.name].add((one.name, reference.selector))

        def held(claims: Claims, version: Version) -> Iterator[Holder]:
            for name, selector in sorted(named.get(version.adapter, ()), key=str):
                found = claims.view.find(selector)
                if found is not None and found.sequence == version.sequence:
                    said = f"the {kind.noun} {name} {verb} {version.label}"
                    yield Holder(word, version.label, name, said)

        return held

    return read
