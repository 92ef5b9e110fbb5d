"""The jobs on a Spark cluster, as they are on one machine: the same rows in another lake.

    python -m tests.pipeline.cluster_run --messages 200000

A master and two workers of one core each on loopback, an engine that goes on sampling itself, and a proxy before it
that counts what the cluster reads over HTTP. Archive and rollup run there as commands of their own, given a master;
the archive by spark-submit as well, with nothing but the zip that the README makes, of which a program reads a topic
by `format("penstock")` first; and all again on local[2], from the files.
At last the archive goes to S3 on another cluster, made as the README's recipe says (`cluster_recipe.py`).

In CI (`is_small`) the archive runs on the cluster by spark-submit alone, and beside it in the test's own process,
without Java. The minutes are compared with the same sums in plain Python either way.
"""

import argparse
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from queue_engine.engine.samples.sample_format import decode_sample
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.history.history_tables import HistoryTables
from queue_engine.lake.history.levels import MINUTES
from queue_engine.lake.source.read_options import AUTO, HTTP
from queue_engine.vocabulary.clock import NS_PER_MS
from queue_engine.vocabulary.names import SAMPLES_TOPIC
from tests.pipeline import cluster_recipe
from tests.pipeline.archive_reading import (
    archive_of,
    archive_once,
    cursor_of,
    job,
    publish,
    published,
    switch_on,
)
from tests.pipeline.history.history_rows import read_rows
from tests.pipeline.local_tasks import LocalTasks
from tests.pipeline.spark_cluster import SPARK_HOME, SparkCluster
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle
from tests.support.lakes.engine_samples import Key, Row, minutes_of
from tests.support.processes.counting_proxy import CountingProxy
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.process_sessions import ProcessSession
from tests.support.samples import take_sample
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
TOPICS = ("first", "second")
BODY_BYTES = 200
BATCH = 500
ENGINE_OPTIONS = (
    "--storage=log",
    "--samples-interval=1s",
    # Several segments are complete and could be read as files: who reads over HTTP does so because he was told.
    f"--log-segment-bytes={2 << 20}",
    f"--max-body-size={128 << 10}",
    f"--max-msg-size={64 << 10}",
)
SAMPLES = 60  # of ten seconds each, taken before the engine starts
SAMPLED = [number % 7 + 1 for number in range(SAMPLES)]  # messages before each
JOB_TIMEOUT_S = 900.0
LOCAL = "local[2]"
README = ROOT / "queue_engine" / "lake" / "README.md"
# A program of its own, then the job, in one session.
PROGRAM = """\
import runpy
import sys
from pathlib import Path

from pyspark_penstock import DefaultSource, make_session

url, scratch, *sys.argv = sys.argv[1:]
spark = make_session("archive", scratch=Path(scratch))
spark.dataSource.register(DefaultSource)
rows = spark.read.format("penstock").options(url=url, topic="first", read_from="http").load()
print(rows.count(), "rows of the zip's data source")
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(slots=True)
class Run:
    """The times of a run's legs, in their order, and the most memory of the cluster's processes."""

    duration_s: dict[str, float] = field(default_factory=dict)
    cluster_bytes: int = 0


def body(topic: str, number: int) -> bytes:
    return f"{topic} {number} ".encode().ljust(BODY_BYTES, b"x")


def write_samples(data_path: Path) -> None:
    """Ten minutes in the life of an engine, until a little ago, by a clock that needs no waiting."""
    clock = ManualClock(time_ns=time.time_ns() - (SAMPLES + 30) * 10_000 * NS_PER_MS)
    data_path.mkdir(parents=True)
    engine = make_engine(data_path, clock, samples_interval_ms=10_000, storage="log")
    for count in SAMPLED:
        engine.publish("sampled", [b"x"] * count)
        settle(engine)
        take_sample(engine, clock)
    engine.close()


def write_messages(engine: EngineProcess, messages: int) -> None:
    for topic in TOPICS:
        for first in range(0, messages // len(TOPICS), BATCH):
            after = min(first + BATCH, messages // len(TOPICS))
            publish(engine, topic, [body(topic, number) for number in range(first, after)])
        # Keeps the log for all who archive it, one after the other.
        engine.http("POST", f"/cursor/create?topic={topic}&cursor=kept&start=start")


def rewind(engine: EngineProcess) -> None:
    """Create the archive's cursors again, at the beginning."""
    for topic in TOPICS:
        found = {one["cursor"] for one in engine.topic_stats(topic)["cursors"]}
        if "archive" in found:
            engine.http("POST", f"/cursor/delete?topic={topic}&cursor=archive")
        switch_on(engine, topic)


def zip_arguments(path: Path) -> list[str]:
    """Python's arguments by which the README makes `penstock.zip`, for another path."""
    (line,) = (line for line in README.read_text().splitlines() if line.startswith("python -m zipfile"))
    return [str(path) if word == "penstock.zip" else word for word in shlex.split(line, comments=True)[1:]]


class Jobs:
    """Runs jobs as a person does, each a command in a process of its own; or the archive in this one."""

    def __init__(self, directory: Path, cluster: SparkCluster, run: Run, rows: int) -> None:
        """rows: the messages of each topic."""
        self._directory = directory
        self._rows = rows
        self._cluster = cluster
        self._run = run
        self._zip = directory / "penstock.zip"

    def lake(self, name: str) -> Lake:
        return Lake(str(self._directory / name / "pipeline"))

    def by_module(self, job: str, lake: str, url: str) -> None:
        """On the cluster, as `penstock pipeline run` does it."""
        self._on_cluster(f"{job} on the cluster", self._module(job, lake, url, self._cluster.master, HTTP))

    def by_submit(self, job: str, lake: str, url: str) -> None:
        """On the cluster, by spark-submit, from a directory where the package is not: all there is of it is a zip."""
        program = self._directory / "program.py"
        program.write_text(PROGRAM)
        subprocess.run([sys.executable, *zip_arguments(self._zip)], cwd=ROOT, check=True)
        command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", self._cluster.master]
        command += ["--py-files", str(self._zip), str(program), url, str(self._directory / "scratch")]
        command += [str(ROOT / "queue_engine" / "lake" / "jobs.py")]
        name = f"{job} by spark-submit"
        self._on_cluster(
            name,
            lambda name: self._session(
                name,
                [*command, *self._arguments(job, lake, url, HTTP)],
                self._cluster.environment(),
                self._directory,
            ),
        )
        assert f"{self._rows} rows of the zip's data source" in self._log_path(name).read_text()

    def on_one_machine(self, job: str, lake: str, url: str) -> None:
        """From the log's files."""
        name = f"{job} on {LOCAL}"
        before = self._cluster.done()
        begin = time.monotonic()
        self._finish(name, self._module(job, lake, url, LOCAL, AUTO)(name))
        self._run.duration_s[name] = time.monotonic() - begin
        assert self._cluster.done() == before, "it was to run here, and ran on the cluster"

    def here(self, lake: str, engine: EngineProcess) -> None:
        """The archive in this process, without Java."""
        place = self.lake(lake)
        tasks: Any = LocalTasks()
        with place.lock():
            archive_once(job(tasks, place, engine).context)

    def _module(self, job: str, lake: str, url: str, master: str, read_from: str) -> Callable[[str], ProcessSession]:
        command = [sys.executable, "-m", "queue_engine.lake.jobs", *self._arguments(job, lake, url, read_from)]
        # The cluster's processes know nothing of this package until they are told where it is.
        environment = self._cluster.environment(spark_executorEnv_PYTHONPATH=str(ROOT))
        return lambda name: self._session(
            name, [*command, "--master", master], {**environment, "PYTHONPATH": str(ROOT)}, ROOT
        )

    def _arguments(self, job: str, lake: str, url: str, read_from: str) -> list[str]:
        data_path = str(self._directory / lake)
        return [job, "--once", "--engine-url", url, "--data-path", data_path, "--read-from", read_from]

    def _session(self, name: str, command: list[str], environment: dict[str, str], cwd: Path) -> ProcessSession:
        return ProcessSession(self._log_path(name), command, cwd=cwd, environment=environment)

    def _log_path(self, name: str) -> Path:
        return self._directory / f"{name.replace(' ', '-')}.log"

    def _on_cluster(self, name: str, start: Callable[[str], ProcessSession]) -> None:
        before = self._cluster.done()
        begin = time.monotonic()
        self._finish(name, start(name))
        self._run.duration_s[name] = time.monotonic() - begin
        wait_for("the master to know", lambda: len(self._cluster.done()) > len(before))
        ((app_id, word),) = self._cluster.done().items() - before.items()
        assert word == "FINISHED"
        assert self._cluster.executors_of(app_id) == [1, 1], "not all workers had a part in it"

    def _finish(self, name: str, session: ProcessSession) -> None:

        def has_ended() -> bool:
            self._run.cluster_bytes = max(self._run.cluster_bytes, self._cluster.memory_bytes())
            return not session.is_running

        try:
            wait_for(f"{name} to end", has_ended, timeout_s=JOB_TIMEOUT_S, every_s=0.5)
            session.wait(1)
            assert f"{name.partition(' ')[0]} is up to date" in session.log
            wait_for(f"the end of all that {name} has started", lambda: not session.pids())
        finally:
            session.end()


def archived(lake: Lake, messages: int) -> dict[str, pa.Table]:
    """Each topic's archived rows in order, checked: every published message is there once."""
    found = {}
    for topic in TOPICS:
        one = archive_of(lake, topic)
        assert (one.gaps, one.rows.num_rows) == ((), messages // len(TOPICS))
        table = found[topic] = one.rows.sort_by("offset")
        assert table.column("offset").to_pylist() == list(range(table.num_rows))
        assert table.column("body").to_pylist() == [body(topic, number) for number in range(table.num_rows)]
    return found


def history(lake: Lake) -> tuple[dict[Key, Row], int]:
    """Rows of minutes, and the end of the last minute that is there."""
    return read_rows(lake, MINUTES), HistoryTables(lake).end_s()


def check_history(lake: Lake, engine: EngineProcess) -> None:
    """The minutes of a stream are those of the engine's samples."""
    rows, end_s = history(lake)
    minutes = {key[0] for key in rows}
    assert len(minutes) >= SAMPLES // 6
    assert sum(row["messages"] for key, row in rows.items() if key[2:] == ("sampled", "")) == sum(SAMPLED)
    samples = [decode_sample(body) for body in published(engine, SAMPLES_TOPIC, is_replayed=False)]
    assert rows == {key: row for key, row in minutes_of(samples).items() if key[0] < end_s}


def run(directory: Path, *, messages: int, is_small: bool = False) -> Run:
    """is_small: without what one machine does on Spark, and with one of two ways to archive on a cluster."""
    run = Run()
    write_samples(directory / "engine")
    with EngineProcess(directory / "engine", options=ENGINE_OPTIONS) as engine:
        write_messages(engine, messages)
        cluster = SparkCluster(directory / "cluster")
        try:
            begin = time.monotonic()
            cluster.start()
            run.duration_s["start of the cluster"] = time.monotonic() - begin
            run_jobs(engine, Jobs(directory, cluster, run, messages // len(TOPICS)), messages, is_small=is_small)
        finally:
            cluster.stop()
    assert cluster.pids() == []
    return run


def run_jobs(engine: EngineProcess, jobs: Jobs, messages: int, *, is_small: bool) -> None:
    url = f"http://127.0.0.1:{engine.http_port}"
    tables = []
    for lake, start in (("submitted", jobs.by_submit), ("cluster", jobs.by_module))[: 1 if is_small else 2]:
        rewind(engine)
        with CountingProxy(engine.http_port) as proxy:
            start("archive", lake, proxy.url)
        assert proxy.answered_bytes["/log/records"] >= messages * BODY_BYTES, "it was not read over HTTP"
        assert all(cursor_of(engine, topic).depth == 0 for topic in TOPICS)
        tables.append(archived(jobs.lake(lake), messages))
    with CountingProxy(engine.http_port) as proxy:
        jobs.by_module("rollup", "cluster", proxy.url)
    assert proxy.answered_bytes["/log/records"] > 0
    rewind(engine)
    if is_small:
        jobs.here("local", engine)
    else:
        jobs.on_one_machine("archive", "local", url)
        jobs.on_one_machine("rollup", "local", url)
        check_history(jobs.lake("local"), engine)
    expected = archived(jobs.lake("local"), messages)
    assert all(table == expected for table in tables)
    check_history(jobs.lake("cluster"), engine)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of two topics together")
    given = parser.parse_args()
    # What was started is ended on the way out, whoever shows it.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with tempfile.TemporaryDirectory() as place:
        done = run(Path(place), messages=given.messages)
        begin = time.monotonic()
        cluster_recipe.run(Path(place) / "recipe", messages=given.messages)
        done.duration_s["the recipe, to S3"] = time.monotonic() - begin
    for name, took_s in done.duration_s.items():
        print(f"{name:30} {took_s:6.1f} s")
    print(f"most memory of the cluster's processes {done.cluster_bytes / (1 << 20):,.0f} MiB; all rows equal")


if __name__ == "__main__":
    main()
