"""The Python processes of Spark import the installed package, not the zip file that is compiled at every start, and
what their tasks need once, before they are forked."""

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from queue_engine.lake.spark.session import lean_spark_home


def test_a_home_has_the_launcher_and_the_jars_and_is_made_again_over_itself(tmp_path: Path) -> None:
    for _ in range(2):
        home = lean_spark_home(tmp_path / "home")
        assert sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
        assert (home / "bin" / "spark-submit").is_file()
        assert (home / "jars").resolve() == Path(pyspark.__file__).parent / "jars"


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
def test_a_process_of_spark_imports_what_is_installed(spark: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark.worker

        return str(pyspark.worker.__file__)

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [
        str(Path(pyspark.__file__).with_name("worker.py"))
    ]


@pytest.mark.spark
@pytest.mark.slow(reason="runs Spark")
def test_a_process_of_spark_begins_with_what_tasks_need(spark: SparkSession) -> None:
    def imported(_: int) -> list[str]:
        import sys

        return [name for name in ("pandas", "queue_engine.lake.history.aggregation") if name in sys.modules]

    assert spark.sparkContext.parallelize([0], 1).map(imported).collect() == [
        ["pandas", "queue_engine.lake.history.aggregation"]
    ]
