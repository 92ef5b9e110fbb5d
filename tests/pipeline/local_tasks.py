"""What the archive needs of a Spark session, without Java: its tasks run one after the other in this process.

Java takes seconds to start, and the rest of a step is the same with it. An error of a task comes as Spark hands it on:
another class, with the task's traceback as its text.
"""

import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class TaskFailedError(Exception):
    """As Py4JJavaError: the text ends with the task's own error."""


class LocalTasks:
    """Takes the place of a SparkSession and its SparkContext."""

    @property
    def sparkContext(self) -> "LocalTasks":
        return self

    def parallelize(self, texts: Iterable[str], _: int) -> "_Tasks":
        return _Tasks(list(texts))

    def setJobGroup(self, *_: str) -> None:
        pass

    setLocalProperty = cancelJobGroup = setJobGroup

    def stop(self) -> None:
        pass


class _Tasks:
    def __init__(self, texts: list[str], work: Callable[[Iterable[str]], Iterator[Any]] = iter) -> None:
        self._texts = texts
        self._work = work

    def mapPartitions(self, work: Callable[[Iterable[str]], Iterator[Any]]) -> "_Tasks":
        return _Tasks(self._texts, work)

    def collect(self) -> list[Any]:
        try:
            return [row for text in self._texts for row in self._work([text])]
        except Exception:
            raise TaskFailedError(traceback.format_exc()) from None
