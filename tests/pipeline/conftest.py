"""One real Spark session for all tests of the pipeline: starting it is what costs most."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.spark.session import make_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = make_session(
        "penstock-tests",
        scratch=tmp_path_factory.mktemp("spark"),
        master="local[2]",
    )
    yield session
    session.stop()
