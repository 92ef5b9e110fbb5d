"""A process of its own that makes minutes of files of samples until nothing is left.

python -m tests.pipeline.history.rollup_process LAKE SAMPLES SCRATCH
"""

import sys
from pathlib import Path

from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.rollup_stream import start_rollup_stream
from queue_engine.lake.spark.session import make_session
from tests.pipeline.history.history_rows import SampleFiles, job_context


def main(lake_path: str, samples_path: str, scratch: str) -> None:
    lake = Lake(lake_path)
    with lake.lock():
        spark = make_session("penstock-rollup-test", scratch=Path(scratch), master="local[2]")
        samples = SampleFiles(spark, Path(samples_path))
        query = start_rollup_stream(job_context(spark, lake), samples=samples, trigger={"availableNow": True})
        query.awaitTermination()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
