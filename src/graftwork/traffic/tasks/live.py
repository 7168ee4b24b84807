"""LiveTasks: the part of a snapshot that tasks are; requests find theirs in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, or_, true

from graftwork.db import Transaction
from graftwork.db.schema import tasks
from graftwork.registry.snapshot import Changed
from graftwork.traffic.tasks.tasks import SUBJECTS, Task, live_tasks, no_task

#: So many are looked up one by one; of more, all are read.
_MOST = 100


@dataclass(frozen=True)
class LiveTasks:
    """What every name means at one moment."""

    by_name: Mapping[tuple[str, str], Task]  #: by (tenant, name)

    def find(self, tenant: str, name: str) -> Task:
        """Raises NotFound: malformed, unknown and another tenant's are one and the same."""
        found = self.by_name.get((tenant, name))
        if found is None:
            raise no_task(name)
        return found


def read_tasks(tx: Transaction, known: Any, changed: Changed) -> LiveTasks:
    """As the reader of a snapshot asks: again only what the log speaks of."""
    own = {
        (tenant, subject.removeprefix(SUBJECTS)) for tenant, subject in changed or () if subject.startswith(SUBJECTS)
    }
    if not isinstance(known, LiveTasks) or changed is None or len(own) > _MOST:
        return LiveTasks(live_tasks(tx, true()))
    if not own:
        return known
    kept = {key: task for key, task in known.by_name.items() if key not in own}
    where = or_(*(and_(tasks.c.tenant == tenant, tasks.c.name == name) for tenant, name in own))
    return LiveTasks({**kept, **live_tasks(tx, where)})
