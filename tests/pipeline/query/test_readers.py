"""The archive read by other tools, with the lines of the pipeline's README as they stand there; and S3 by queries."""

import re
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from queue_engine.vocabulary.errors import QueryError
from tests.pipeline.query.archived_topic import archive_days, ask, views
from tests.support.object_store import BUCKET, KEY_ID, SECRET, Fate, ObjectStore

pytestmark = pytest.mark.slow(reason="an S3 server, Spark, and processes of queries")

README = Path(__file__).parents[3] / "queue_engine" / "lake" / "README.md"
CODE = dict(re.findall(r"<!-- reader: (\w+) -->\n```python\n(.*?)```", README.read_text(), re.DOTALL))
# The README's day, moved to the data's.
DAY, DAY_OF_DATA = "2026-11-20", "2026-10-03"
DAYS = [("2026-10-03", 7), ("2026-10-04", 7)]


@pytest.fixture(scope="module", params=["disk", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A lake with four days of `orders`, seven messages each."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "disk":
            place = str(tmp_path_factory.mktemp("lake"))
            archive_days(place, "orders", 4, 7)
            yield place
            return
        with closing(ObjectStore()) as store:
            for name, value in store.environment.items():
                patch.setenv(name, value)
            place = f"s3://{BUCKET}/prefix"
            archive_days(place, "orders", 4, 7)
            # Other programs' own deltalake, as the README says.
            patch.setenv("AWS_ALLOW_HTTP", "true")
            yield place


def run(tool: str, place: str, **known: Any) -> dict[str, Any]:
    code = CODE[tool].replace(DAY, DAY_OF_DATA)
    names = {"place": f"{place}/archive/orders", **known}
    exec(compile(code, f"README.md, {tool}", "exec"), names)
    return names


def test_the_readme_has_lines_for_each_tool() -> None:
    assert list(CODE) == ["duckdb", "pandas", "polars", "spark"]


@pytest.mark.parametrize("tool", ["duckdb", "pandas", *(["polars"] if find_spec("polars") else [])])
def test_the_lines_of_the_readme_read_the_archive(lake: str, tool: str) -> None:
    assert run(tool, lake)["found"] == DAYS


@pytest.mark.spark
def test_the_lines_for_spark_read_the_archive(spark: SparkSession, tmp_path: Path) -> None:
    archive_days(str(tmp_path), "orders", 4, 7)
    days = run("spark", str(tmp_path), spark=spark)["days"]
    assert sorted((row["date"].isoformat(), row["count"]) for row in days.collect()) == DAYS


def test_a_query_reads_a_lake_in_a_store(lake: str) -> None:
    known = [one for one in views(lake) if one.topic]
    assert [one.name for one in known] == ["orders"]
    sql = "SELECT date, count(text) AS n FROM orders WHERE date >= '2026-10-03' GROUP BY 1 ORDER BY 1"
    assert ask(sql, known) == [{"date": day, "n": count} for day, count in DAYS]


def test_a_store_that_refuses_is_a_sentence_without_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(ObjectStore()) as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        place = f"s3://{BUCKET}/prefix"
        archive_days(place, "orders", 1, 1)
        known = views(place)
        store.fate = lambda method, path: Fate.DENIED
        with pytest.raises(QueryError) as caught:
            ask("SELECT * FROM orders", known)
        assert str(caught.value).startswith(
            "orders can't be read: s3://lake/prefix: the store refuses the credentials of the server's environment"
        )
        # In mid-query, where the text is pyarrow's.
        store.fate = lambda method, path: Fate.DENIED if path.endswith(".parquet") else Fate.PASS
        with pytest.raises(QueryError) as caught:
            ask("SELECT * FROM orders", known)
        assert str(caught.value).startswith(
            "orders can't be read: s3://lake/prefix: the store refuses the credentials of the server's environment"
        )
        assert SECRET not in str(caught.value)
        assert KEY_ID not in str(caught.value)
