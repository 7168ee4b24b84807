"""read_task_holders: which versions the tasks of a tenant name, so that they are not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from graftwork.db import Transaction
from graftwork.db.schema import tasks
from graftwork.registry.reference import Selector, parse_reference
from graftwork.registry.retention.holders import Claims, Holder, HolderRule
from graftwork.registry.versions import Version
from graftwork.traffic.tasks.tasks import live_tasks


def read_task_holders(tx: Transaction, tenant: str) -> HolderRule:
    """Who needs a version because a live task's adapter resolves to it now."""
    named: dict[str, set[tuple[str, Selector]]] = defaultdict(set)
    for task in live_tasks(tx, tasks.c.tenant == tenant).values():
        if task.revision.spec.adapter is not None:
            reference = parse_reference(task.revision.spec.adapter)
            if reference.tenant in (None, tenant):
                named[reference.name].add((task.name, reference.selector))

    def asked(claims: Claims, version: Version) -> Iterator[Holder]:
        for name, selector in sorted(named.get(version.adapter, ()), key=str):
            found = claims.view.find(selector)
            if found is not None and found.sequence == version.sequence:
                yield Holder("task", version.label, name, f"the task {name} is answered by {version.label}")

    return asked
