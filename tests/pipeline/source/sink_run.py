"""One write of the sink in a Spark of its own: other cores, tasks that fail, tasks that run twice at once.

python -m tests.pipeline.source.sink_run MASTER ENGINE_URL TOPIC BATCH_KEY ROWS PARTITIONS DIRECTORY

The first partition fails at its first attempt, so the master has to try tasks again: `local[3,4]`, four times. On
`local-cluster[2,1,512]`, where Spark speculates, the last one waits until a second attempt of it runs beside the first,
and rows go to the driver in the tasks' results.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from queue_engine.lake.source.data_source import PenstockDataSource
from queue_engine.lake.spark.session import make_session
from tests.support.waiting import wait_for

SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
}


def disturbed(marks: Path, waiting: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def disturb(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        mark = marks / f"{partition}-{context.taskAttemptId()}"
        mark.touch()
        yield from batches
        if partition == 0 and context.attemptNumber() == 0:
            raise RuntimeError("as if the machine had gone")
        if partition == waiting:
            wait_for("a second attempt", lambda: len(list(marks.glob(f"{waiting}-*"))) > 1, timeout_s=60)

    return disturb


def main() -> None:
    master, url, topic, batch_key, rows, partitions, place = sys.argv[1:]
    directory = Path(place)
    waiting = int(partitions) - 1 if master.startswith("local-cluster") else -1
    marks = directory / "marks"
    marks.mkdir(parents=True)
    spark = make_session("sink", scratch=directory / "spark", master=master, extra=SPECULATION)
    spark.dataSource.register(PenstockDataSource)
    frame = spark.range(0, int(rows), numPartitions=int(partitions)).selectExpr("format_string('body %d', id) AS body")
    to = {"url": url, "topic": topic, "batch_key": batch_key}
    frame = frame.mapInArrow(disturbed(marks, waiting), frame.schema)
    frame.write.format("penstock").mode("append").options(**to).save()
    print(f"attempts {len(list(marks.iterdir()))}")
    spark.stop()


if __name__ == "__main__":
    main()
