"""The pipeline's readers, each beside Parquet: what other tests do at the same time slows down both sides."""

import pytest

from tests.benchmarks.pipeline_scenarios import PipelineReads
from tests.benchmarks.spark_topics import OPTIONS, SparkTopics
from tests.benchmarks.test_smoke import TRIES, shortfalls
from tests.support.processes.server import ServerProcess

# Enough that what a Spark job costs by itself, on either side, is not all there is.
MESSAGES = 100_000


@pytest.mark.benchmark
@pytest.mark.spark
@pytest.mark.slow(reason="measures a real server with Spark")
@pytest.mark.timeout(600)
def test_readers_have_a_third_of_their_share_of_parquets_rate(tmp_path_factory: pytest.TempPathFactory) -> None:
    # Java runs from there, and goes on with the pipeline's tests.
    directory = tmp_path_factory.mktemp("reads")
    reads = PipelineReads(SparkTopics(messages=MESSAGES))
    with ServerProcess(directory / "data", options=OPTIONS) as server:
        try:
            for _ in range(TRIES):
                own = reads.penstock(server)
                complaints = shortfalls(own, {}, syncs_per_s=float("inf"))
                if not complaints:
                    break
        finally:
            reads.close()
    assert set(own) == {"pipeline_parquet", "pipeline_leased", "pipeline_http"}
    assert not complaints
