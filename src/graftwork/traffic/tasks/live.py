"""LiveTasks: the part of a snapshot that tasks are; requests find theirs in it."""

from __future__ import annotations

from graftwork.traffic.resources.table import LiveTable, reader_of
from graftwork.traffic.tasks.tasks import TASK, Task


class LiveTasks(LiveTable[Task]):
    """What every task's name means at one moment."""

    def get(self, tenant: str, name: str) -> Task:
        """Raises NotFound: malformed, unknown and another tenant's are one and the same."""
        found = self.find(tenant, name)
        if found is None:
            raise TASK.missing(name)
        return found


read_tasks = reader_of(LiveTasks, TASK)
