"""The pipeline's scenarios at a small size, in a process of its own: prints the rounds, as JSON, as its last line.

A process has one Spark session. A scenario ends the one that it used, which may be the session of other tests.

python -m tests.benchmarks.small_pipeline_run
"""

import json

from tests.benchmarks import run
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

if __name__ == "__main__":
    print(json.dumps(run.measure_all(SMALL, 1, ServerProcess)))
