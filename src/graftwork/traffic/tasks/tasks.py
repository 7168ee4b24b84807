"""Tasks: the resources that say how something is asked, by whom it is answered, and what its answer is."""

from __future__ import annotations

import json
from functools import partial

from graftwork.access.clock import Clock, utc_now
from graftwork.access.names import check_name
from graftwork.db import Database
from graftwork.protocol.tasks import TaskResource, TaskSpec
from graftwork.traffic.resources.holding import holding
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.resources.resources import Resources
from graftwork.traffic.tasks.checked import check_spec

Task = Resource[TaskSpec]


def task_text(spec: TaskSpec) -> str:
    """JSON in the order that it was given in, which answers follow; raises InvalidRequest for what cannot work."""
    check_spec(spec)
    return json.dumps(spec.to_json(), allow_nan=False)


TASK: Kind[TaskSpec, Task] = Kind(
    word="task",
    many="tasks",
    noun="task",
    listed_by="graftwork task list",
    spec=TaskSpec,
    document=TaskResource,
    made=Task,
    check_name=partial(check_name, what="task"),
    text=task_text,
)
#: Whoever answers a task is needed.
read_task_holders = holding(
    TASK, "task", lambda task: () if task.spec.adapter is None else (task.spec.adapter,), "is answered by"
)


class Tasks(Resources[TaskSpec, Task]):
    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        super().__init__(TASK, database, clock)
