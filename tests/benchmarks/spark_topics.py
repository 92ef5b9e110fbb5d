"""The input of the pipeline's scenarios: topics of the log, the same rows in Parquet, and one Spark session.

Made at the first use on a server, kept for all rounds, gone with `close`. Bodies are 200 bytes each, every one
different, of words: Parquet's side decompresses neither noise nor one body a million times.
"""

import http.client
import random
import shutil
import string
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive import Archiver
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.job.context import JobContext
from queue_engine.lake.source.data_source import PenstockDataSource
from queue_engine.lake.source.read_options import FILES, HTTP
from queue_engine.lake.spark.session import make_session
from queue_engine.vocabulary.clock import SystemClock
from queue_engine.vocabulary.names import ARCHIVE_CURSOR
from tests.benchmarks.scenarios import BATCH
from tests.support.processes.server import ServerProcess

BODY_BYTES = 200
MASTER = "local[2]"
# Small segments: nearly all are complete, and can be leased. As large as an MPUB of --max-body-size may need.
OPTIONS = (
    "--no-pipeline",
    "--storage=log",
    "--sync=always",
    f"--max-body-size={1 << 20}",
    f"--log-segment-bytes={16 << 20}",
)


class SparkTopics:
    """`messages` in batches of 200, to `topics` topics in turn, so that their records lie one between another.

    names: of the topics. settings: of Spark, beside those of the pipeline's own sessions. Every method needs `prepare`
    first.
    """

    def __init__(self, *, messages: int, topics: int = 10, settings: Mapping[str, str] | None = None) -> None:
        self.messages = messages // (BATCH * topics) * (BATCH * topics)
        self.names = [f"spark_{number}" for number in range(topics)]
        self._server: ServerProcess | None = None
        self._directory = Path()
        self._settings = settings
        self._session: SparkSession | None = None

    def prepare(self, server: ServerProcess) -> None:
        """Publish, write the Parquet files and run every reader once; nothing when that is done for this server."""
        if self._server is server:
            return
        self.close()
        self._directory = server.data_path.parent / f"spark-{server.data_path.name}"
        shutil.rmtree(self._directory, ignore_errors=True)
        self._server = server
        publish_rows(server.http_port, self.names, self.messages)
        self._session = make_session(
            "penstock-benchmarks", scratch=self._directory / "scratch", master=MASTER, extra=self._settings
        )
        self._session.dataSource.register(PenstockDataSource)
        self.leased().write.parquet(str(self._directory / "rows"), compression="zstd")
        assert self.parquet().count() == self.messages
        # The first run of each pays for compilation and for Python processes.
        for frame in (self.leased(), self.over_http(), self.parquet()):
            self.rate(frame)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.http_port}"

    @property
    def directory(self) -> Path:
        """For what a scenario leaves about."""
        return self._directory

    def leased(self) -> DataFrame:
        """The rows out of leased segment files, and the unfinished segment's over HTTP."""
        return self._penstock(FILES)

    def over_http(self) -> DataFrame:
        return self._penstock(HTTP)

    def parquet(self) -> DataFrame:
        return self._spark.read.parquet(str(self._directory / "rows"))

    def rate(self, frame: DataFrame) -> float:
        """Rows a second of reading all of them, every column, to nowhere."""
        began_s = time.monotonic()
        frame.write.format("noop").mode("overwrite").save()
        elapsed_s = time.monotonic() - began_s
        assert not list(self._missed.glob("*")), "messages were missing"
        return self.messages / elapsed_s

    def copy_rate(self) -> float:
        """Rows a second of Parquet → Parquet, without anything in between."""
        target = self._directory / "copy"
        began_s = time.monotonic()
        self.parquet().write.parquet(str(target), compression="zstd")
        elapsed_s = time.monotonic() - began_s
        shutil.rmtree(target)
        return self.messages / elapsed_s

    def archive_rate(self) -> float:
        """Rows a second of archiving all of them into an empty lake, from the cursors to the last commit."""
        assert self._server is not None
        self.rewind()
        path = self._directory / "pipeline"
        lake = Lake(str(path))
        with lake.lock(), LogClient(self.url) as engine:
            context = JobContext(self._spark, lake, engine, SystemClock(), threading.Event(), lambda _: None)
            began_s = time.monotonic()
            rows = Archiver(context).run(self.names)
            elapsed_s = time.monotonic() - began_s
        assert rows == self.messages, f"{rows} of {self.messages} rows were archived"
        shutil.rmtree(path)
        return rows / elapsed_s

    def rewind(self) -> None:
        """The archive's cursors, at the first message again."""
        assert self._server is not None
        with LogClient(self.url) as engine:
            is_there = {one.topic for one in engine.cursor_list() if one.cursor == ARCHIVE_CURSOR}
        for name in self.names:
            if name in is_there:
                self._server.http("POST", f"/cursor/delete?topic={name}&cursor={ARCHIVE_CURSOR}")
            self._server.http("POST", f"/cursor/create?topic={name}&cursor={ARCHIVE_CURSOR}&start=start")

    def close(self) -> None:
        """End Spark. The topics stay: they go with the server's directory."""
        self._server = None
        if self._session is not None:
            self._session.stop()
            self._session = None
            # Not the scratch directory: Java may run from there, and lives as long as this process.
            shutil.rmtree(self._directory / "rows")

    @property
    def _spark(self) -> SparkSession:
        assert self._session is not None, "not prepared"
        return self._session

    @property
    def _missed(self) -> Path:
        return self._directory / "missed"

    def _penstock(self, read_from: str) -> DataFrame:
        return (
            self._spark.read.format(PenstockDataSource.name())
            .option("url", self.url)
            .option("topic", ",".join(self.names))
            .option("read_from", read_from)
            .option("damage_path", str(self._missed))
            .load()
        )


def publish_rows(http_port: int, topics: list[str], messages: int) -> None:
    """Publish `messages`, a multiple of BATCH, in batches to the topics in turn."""
    rng = random.Random(1)
    words = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(2, 9))) for _ in range(2_000)]
    text = " ".join(rng.choices(words, k=200_000)).encode()
    connection = http.client.HTTPConnection("127.0.0.1", http_port)
    size = BODY_BYTES.to_bytes(4, "big")
    for batch, number in enumerate(range(0, messages, BATCH)):
        parts = [BATCH.to_bytes(4, "big")]
        for identity in range(number, number + BATCH):
            head = b'{"id":%d,"amount":%d,"place":"%016x","note":"' % (
                identity,
                rng.getrandbits(20),
                rng.getrandbits(64),
            )
            at = rng.randrange(len(text) - BODY_BYTES)
            parts += [size, head, text[at : at + BODY_BYTES - 2 - len(head)], b'"}']
        connection.request("POST", f"/mpub?topic={topics[batch % len(topics)]}&binary=true", b"".join(parts))
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, said
    connection.close()
