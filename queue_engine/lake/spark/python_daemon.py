"""Spark's Python daemon: it imports the modules that tasks need once, then forks a process for each task.

Spark ends a process that had no task for a minute. A stream that waits longer between its batches begins each batch
with new processes, and each would import the modules again, for a second of a core.
"""

import importlib
import sys

from pyspark.daemon import manager

_TASKS = "pyspark.worker"
_IMPORTED = ("pandas", "queue_engine.lake.source.data_source", "queue_engine.lake.history.aggregation")


def main() -> None:
    """Run as `python -m pyspark.daemon MODULE` does."""
    # Daemons of other modules fork one process, which plans one query: imports before the fork save nothing.
    if sys.argv[1:] == [_TASKS]:
        for name in _IMPORTED:
            importlib.import_module(name)
    manager()


if __name__ == "__main__":
    main()
