"""The tasks that the example adapters learn, by name."""

from __future__ import annotations

from examples.tasks.code import CODE
from examples.tasks.entities import ENTITIES
from examples.tasks.sentiment import SENTIMENT
from examples.tasks.summary import SUMMARY
from examples.tasks.support import SUPPORT
from examples.tasks.task import Task

TASKS: dict[str, Task] = {task.name: task for task in (SENTIMENT, ENTITIES, SUMMARY, SUPPORT, CODE)}
