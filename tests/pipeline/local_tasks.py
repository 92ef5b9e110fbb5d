"""What the archive needs of a Spark session, without Java: its tasks run one after the other in this process.

Java takes seconds to start, and the rest of a step is the same with it. An error of a task comes as Spark hands it on:
another class, with the task's traceback as its text.
"""

import traceback
from collections.abc import Callable, Iterable
from typing import Any


class TaskFailedError(Exception):
    """As Py4JJavaError: the text ends with the task's own error."""


class LocalTasks:
    """Takes the place of a SparkSession and its SparkContext."""

    @property
    def sparkContext(self) -> "LocalTasks":
        return self

    def parallelize(self, tasks: Iterable[Any], _: int) -> "_Tasks":
        return _Tasks(list(tasks))

    def setJobGroup(self, *_: str) -> None:
        pass

    setLocalProperty = cancelJobGroup = setJobGroup

    def stop(self) -> None:
        pass


class _Tasks:
    def __init__(self, tasks: list[Any], work: Callable[[Any], Iterable[Any]] = lambda task: [task]) -> None:
        self._tasks = tasks
        self._work = work

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> "_Tasks":
        return _Tasks(self._tasks, work)

    def collect(self) -> list[Any]:
        try:
            return [row for task in self._tasks for row in self._work(task)]
        except Exception:
            raise TaskFailedError(traceback.format_exc()) from None
