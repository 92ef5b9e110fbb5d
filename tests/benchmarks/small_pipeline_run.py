"""The pipeline's scenarios at a small size, a round of each: fails where one does not give its rows. Some two minutes.

    python -m tests.benchmarks.small_pipeline_run

Run it after a change of the pipeline or of its scenarios: the tests start none of them but `pipeline_queryable`. It
judges no times.
"""

from tests.benchmarks import results, run
from tests.benchmarks.pipeline_scenarios import (
    PipelineArchive,
    PipelineHistory,
    PipelinePublish,
    PipelineReads,
    PipelineWorker,
)
from tests.benchmarks.scenarios import Scenario
from tests.benchmarks.spark_topics import SparkTopics
from tests.support.processes.server import ServerProcess

TOPICS = SparkTopics(
    messages=100_000, settings={"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"}
)
SMALL: tuple[Scenario, ...] = (
    PipelineReads(TOPICS),
    PipelineArchive(TOPICS),
    PipelinePublish(TOPICS, seconds=0.1, messages=2_000),
    PipelineHistory(days=1, channels=5, requests=3),
    PipelineWorker(rest_s=0, idle_s=1),
)
ROWS = {
    "pipeline_parquet", "pipeline_leased", "pipeline_http", "pipeline_copy", "pipeline_archive",
    "pipeline_publish_alone", "pipeline_publish", "history_query_ms", "history_query_now_ms", "history_page_p95_ms",
    "worker_first_start_s", "worker_later_start_s", "worker_idle_percent",
}  # fmt: skip


def main() -> None:
    rounds = run.measure_all(SMALL, 1, ServerProcess)
    assert set(rounds) == ROWS, set(rounds) ^ ROWS
    assert all(value >= 0 for sides in rounds.values() for value in sides["penstock"]), rounds
    lines = results.table(rounds).splitlines()
    for name in ROWS:
        assert any(line.startswith(f"| {results.ROWS[name].title}, ") for line in lines), name
    print(f"{len(SMALL)} scenarios gave their {len(ROWS)} rows")


if __name__ == "__main__":
    main()
