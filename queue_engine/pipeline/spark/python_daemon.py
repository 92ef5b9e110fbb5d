"""Spark's Python daemon, which forks a process for each task, having imported what tasks need.

Spark ends processes that had no task for a minute, so a stream that waits longer between its batches begins each with
new ones, and each would import everything by itself, for a second of a core.
"""

import importlib
import sys

from pyspark.daemon import manager

_TASKS = "pyspark.worker"
_IMPORTED = ("pandas", "queue_engine.pipeline.source.data_source", "queue_engine.pipeline.history.aggregation")


def main() -> None:
    """As `python -m pyspark.daemon MODULE` is called."""
    # The other modules' processes plan one query each, and are the only ones of their daemon.
    if sys.argv[1:] == [_TASKS]:
        for name in _IMPORTED:
            importlib.import_module(name)
    manager()


if __name__ == "__main__":
    main()
