"""What one process of pytest-xdist runs one after another (a unit), and which units come first.

A unit is a file, but for files that share what is slow to start. With `--dist loadfile` alone the files with few tests
come last, which may run for a minute each: then one process is done early and the other has them all.
"""

import re

from xdist.scheduler.loadfile import LoadFileScheduling
from xdist.workermanage import WorkerController

# Tests with the fixture `spark`, whose session lasts as long as the process, and one whose Java they go on with.
_WITH_SPARK = re.compile(
    r"tests/(?:benchmarks/test_pipeline_reads|pipeline/(?:(?:archive|expression|history|replay|source)/"
    r"|test_kill_archive|query/test_readers|spark/test_session|spark/test_spark_home))"
)

# Each starts Java in processes of its own: several at a time would take the processors from everything that waits.
_WITH_JAVA = re.compile(
    r"tests/(?:pipeline/(?:test_cluster_run|worker/test_(?:process|server_kill|worker_rest)|spark/test_java_process)"
    r"|benchmarks/test_queryable|console/management/test_wheel)\.py"
)

# Units that take more than a few seconds on an idle machine, the longest first. Behind them come those with most tests.
LONG_UNITS: tuple[str, ...] = (
    "Spark",
    "Java",
    "browser",
    "tests/pipeline/tables/test_object_store.py",
    "tests/operations/test_recipes.py",
    "tests/faults/wire/test_random.py",
    "tests/benchmarks/test_sizing.py",
    "tests/benchmarks/test_many_channels.py",
    "tests/benchmarks/test_many_topics.py",
    "tests/console/management/test_serve.py",
    "tests/operations/test_rolling_upgrade.py",
    "tests/pipeline/spark/test_no_spark_here.py",
    "tests/pipeline/query/test_query.py",
    "tests/faults/test_memory.py",
    "tests/faults/test_log_kill.py",
    "tests/faults/test_log_crash_states.py",
    "tests/clients/test_pynsq.py",
    "tests/clients/test_gnsq.py",
    "tests/client/test_demo.py",
    "tests/clients/test_sub_path.py",
    "tests/console/audit/test_upkeep.py",
    "tests/console/management/test_guarded_connections.py",
    "tests/console/test_database.py",
    "tests/faults/test_store_faults.py",
    "tests/clients/test_stop.py",
    "tests/clients/test_discovery.py",
    "tests/clients/test_backup.py",
    "tests/benchmarks/test_live_figures.py",
    "tests/engine/memory/test_memory.py",
    "tests/faults/test_block_damage.py",
    "tests/clients/test_few_descriptors.py",
    "tests/clients/test_metrics.py",
    "tests/clients/test_full_disk.py",
    "tests/clients/test_kill.py",
    "tests/tools/test_to_file.py",
)
_PLACES = {unit: place for place, unit in enumerate(LONG_UNITS)}


def unit_of(node_id: str) -> str:
    """The unit of a test by its id, such as `tests/browser/test_acts.py::test_pause[log]`."""
    path = node_id.split("::")[0]
    if path.startswith("tests/browser/"):
        return "browser"
    if _WITH_JAVA.match(path):
        return "Java"
    return "Spark" if _WITH_SPARK.match(path) else path


class UnitScheduling(LoadFileScheduling):
    """`--dist loadfile` with these units, in this order."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        self.workqueue.move_to_end(min(self.workqueue, key=self._place), last=False)
        super()._assign_work_unit(node)

    def _place(self, unit: str) -> tuple[int, int]:
        return _PLACES.get(unit, len(_PLACES)), -len(self.workqueue[unit])
