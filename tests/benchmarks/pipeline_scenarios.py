"""Scenarios of the data pipeline: its readers and its archive beside Parquet, publishing meanwhile, queries of the
archive, the history, the worker."""

import shutil
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

from queue_engine.lake.job.state import RUNNING, read_states
from tests.benchmarks import history, queryable, worker
from tests.benchmarks.log_scenarios import beside
from tests.benchmarks.scenarios import Figures, publish_rate, topic_with
from tests.benchmarks.spark_topics import OPTIONS, SparkTopics
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

START_TIMEOUT_S = 400.0  # a worker gives way to whatever else the machine does
PUBLISHED_MESSAGES = 200_000


@runtime_checkable
class Closing(Protocol):
    """A scenario that keeps something between its rounds."""

    def close(self) -> None:
        """Called when all scenarios of the server it ran on are through."""
        ...


class PipelineReads:
    """All rows to nowhere: from Parquet, from leased segments, over HTTP."""

    name = "pipeline_reads"
    options = OPTIONS

    def __init__(self, topics: SparkTopics) -> None:
        self._topics = topics

    def penstock(self, server: ServerProcess) -> Figures:
        self._topics.prepare(server)
        return {
            "pipeline_parquet": self._topics.rate(self._topics.parquet()),
            "pipeline_leased": self._topics.rate(self._topics.leased()),
            "pipeline_http": self._topics.rate(self._topics.over_http()),
        }

    def redis(self, directory: Path) -> Figures:
        return {}

    def close(self) -> None:
        self._topics.close()


class PipelineArchive:
    """All rows into a lake, beside Spark copying its own files."""

    name = "pipeline_archive"
    options = OPTIONS

    def __init__(self, topics: SparkTopics) -> None:
        self._topics = topics

    def penstock(self, server: ServerProcess) -> Figures:
        self._topics.prepare(server)
        return {"pipeline_copy": self._topics.copy_rate(), "pipeline_archive": self._topics.archive_rate()}

    def redis(self, directory: Path) -> Figures:
        return {}

    def close(self) -> None:
        self._topics.close()


class PipelinePublish:
    """MPUBs to a topic of the log, alone, then while the server's worker archives what the others have."""

    name = "pipeline_publish"
    options = OPTIONS

    def __init__(self, topics: SparkTopics, *, seconds: float, messages: int = PUBLISHED_MESSAGES) -> None:
        """seconds: how long to publish again and again; messages: so many each time."""
        self._topics = topics
        self._seconds = seconds
        self._messages = messages

    def penstock(self, server: ServerProcess) -> Figures:
        self._topics.prepare(server)
        alone = self._published(server, None)
        with self._archiving(server) as lake_path:
            beside_archive = self._published(server, lake_path)
        return {"pipeline_publish_alone": alone, "pipeline_publish": beside_archive}

    def _published(self, server: ServerProcess, lake_path: Path | None) -> float:
        """The median of several publishes; of one during which the archive came to its end, nothing is taken."""
        rates: list[float] = []
        until_s = time.monotonic() + self._seconds
        while time.monotonic() < until_s:
            with topic_with(server, "log", "c0") as topic:
                rate = publish_rate(server, topic, 200, self._messages)
            if lake_path is not None and not _is_archiving(lake_path):
                break
            rates.append(rate)
        assert rates, "the archive was through before anything was published beside it"
        return statistics.median(rates)

    @contextmanager
    def _archiving(self, server: ServerProcess) -> Iterator[Path]:
        """A worker as the server would start it, in the midst of its work; its lake."""
        self._topics.rewind()
        data_path = self._topics.directory / "worker"
        with worker.running(server, data_path):
            lake_path = data_path / "pipeline"
            wait_for("the archive", lambda: _is_archiving(lake_path), timeout_s=START_TIMEOUT_S, every_s=0.05)
            yield lake_path
        shutil.rmtree(data_path)

    def redis(self, directory: Path) -> Figures:
        return {}

    def close(self) -> None:
        self._topics.close()


def _is_archiving(lake_path: Path) -> bool:
    state = read_states(lake_path).by_name.get("archive")
    return state is not None and state.state == RUNNING and state.done < state.total


class PipelineQueryable:
    """PUB to the end of the query that returns the message, on a server of its own with its worker."""

    name = "pipeline_queryable"
    options = OPTIONS

    def __init__(self, *, seconds: int) -> None:
        self._seconds = seconds

    def penstock(self, server: ServerProcess) -> Figures:
        with beside(server, options=queryable.OPTIONS) as own:
            own.start()
            figures = queryable.measure(own, own.data_path, self._seconds)
            own.stop()
        return figures

    def redis(self, directory: Path) -> Figures:
        return {}


class PipelineHistory:
    """One channel's graphs of a day out of a month of 500 channels: duckdb alone, and the page of a real server."""

    name = "pipeline_history"
    options = OPTIONS

    def __init__(self, *, days: int, channels: int, requests: int) -> None:
        self._days = days
        self._channels = channels
        self._requests = requests
        self._directory: Path | None = None
        self._end_s = 0

    def penstock(self, server: ServerProcess) -> Figures:
        if self._directory is None:
            self._directory = server.data_path.parent / "history"
            self._end_s = history.make_lake(self._directory, days=self._days, channels=self._channels)
        queries = history.measure_queries(
            self._directory,
            self._end_s,
            self._channels,
            self._requests,
            names={"duckdb_24h_closed_days", "duckdb_24h_until_now"},
        )
        pages = history.measure_server(self._directory, self._requests, names={"page_channel_24h"})
        return {
            "history_query_ms": queries["duckdb_24h_closed_days"]["median"],
            "history_query_now_ms": queries["duckdb_24h_until_now"]["median"],
            "history_page_p95_ms": pages["page_channel_24h"]["p95"],
        }

    def redis(self, directory: Path) -> Figures:
        return {}

    def close(self) -> None:
        self._directory = None


class PipelineWorker:
    """A worker's first start on a data directory, a later one, and what it takes while all its streams wait."""

    name = "pipeline_worker"
    options = OPTIONS

    def __init__(self, *, rest_s: float, idle_s: float) -> None:
        self._rest_s = rest_s
        self._idle_s = idle_s

    def penstock(self, server: ServerProcess) -> Figures:
        with beside(server, options=OPTIONS) as own:
            own.start()
            own.http("POST", "/topic/create?topic=orders")
            own.http("POST", "/cursor/create?topic=orders&cursor=archive")
            own.http("POST", "/pub?topic=orders", b"first")
            with worker.running(own, own.data_path):
                first_s = worker.seconds_to_first_batch(own, own.data_path)
            own.http("POST", "/pub?topic=orders", b"second")
            with worker.running(own, own.data_path) as process:
                later_s = worker.seconds_to_first_batch(own, own.data_path)
                time.sleep(self._rest_s)
                idle = worker.idle_share(process.pid, self._idle_s)
            own.stop()
        return {"worker_first_start_s": first_s, "worker_later_start_s": later_s, "worker_idle_percent": 100 * idle}

    def redis(self, directory: Path) -> Figures:
        return {}
