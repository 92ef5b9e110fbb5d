"""The recipe of the pipeline's README for a cluster, done as it stands there, with an S3 server for the lake.

Each command is one process, as on a machine of its own, and the processes share no directory. Where this runs as root,
the workers, and with them the executors, are another account's.
"""

import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from deltalake import DeltaTable

from queue_engine.lake.spark.java import find_java
from tests.pipeline.archive_reading import cursor_of, publish, switch_on
from tests.support.object_store import BUCKET, SECRET, ObjectStore
from tests.support.processes.engine_process import EngineProcess
from tests.support.processes.process_sessions import ProcessSession
from tests.support.waiting import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "queue_engine" / "lake" / "README.md"
TOPIC = "orders"
LAKE = f"s3://{BUCKET}/prefix"
NOBODY = 65_534
START_TIMEOUT_S = 90.0
JOB_TIMEOUT_S = 900.0
# Short lives: small heaps, and no second compiler.
_DAEMON_MEMORY = "192m"
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# As another account, which may write nothing of this one's. It may read: the Python of root lies in root's home here.
_AS_NOBODY = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=+dac_read_search",
    "--ambient-caps=+dac_read_search",
)  # fmt: skip
_READER = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master(sys.argv[1]).config("spark.sql.session.timeZone", "UTC").getOrCreate()
place = sys.argv[2]
{lines}
print("COUNTED", sum(row["count"] for row in days.collect()))
"""


def recipe() -> list[str]:
    """The commands of the master, of a worker, and of the job; each with the lines that stand before each."""
    before, *commands = _block("recipe: cluster", "sh").strip().split("\n\n")
    assert len(commands) == 3
    return [f"{before}\n{one}" for one in commands]


def _block(name: str, language: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None, name
    return found[1]


class Machines:
    """Runs the recipe's commands, with this machine's addresses in the place of those that it names. master: its
    address."""

    def __init__(self, directory: Path, store: Mapping[str, str], engine_url: str) -> None:
        self._directory = directory
        self._sessions: list[ProcessSession] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._said = {
            "/opt/penstock/bin/python": sys.executable,
            "/opt/penstock/bin/penstock": f"{sys.executable} {ROOT / 'manage.py'}",
            "spark://MASTER:7077": self.master,
            "--host MASTER --port 7077 --webui-port 8080": f"--host 127.0.0.1 --port {port} --webui-port 0",
            "--host WORKER": "--host 127.0.0.1 --webui-port 0",
            "http://ENGINE:4151": engine_url,
            "s3://BUCKET/PREFIX": LAKE,
        }
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(find_java(os.environ, directory / "java").home),
            # The package, as if it were installed in the virtual environment.
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
            **store,
        }

    def start(self, name: str, command: str, *, as_nobody: bool = False) -> ProcessSession:
        """A command as bash runs it, in a directory of its own, which is its home."""
        for word, here in self._said.items():
            command = command.replace(word, here)
        home = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._directory))
        words = ["bash", "-c", command]
        if as_nobody:
            os.chown(home, NOBODY, NOBODY)
            words = [*_AS_NOBODY, *words]
        session = ProcessSession(
            self._directory / f"{name}.log",
            words,
            cwd=home,
            environment=self._environment | {"HOME": str(home), "TMPDIR": str(home)},
        )
        self._sessions.append(session)
        return session

    def end(self) -> None:
        for session in reversed(self._sessions):
            session.end()

    def pids(self) -> list[int]:
        return [pid for session in self._sessions for pid in session.pids()]


@contextmanager
def machines(store: Mapping[str, str], engine_url: str) -> Iterator[Machines]:
    with tempfile.TemporaryDirectory(prefix="cluster-recipe-") as place:
        os.chmod(place, 0o711)  # each finds its own home below
        found = Machines(Path(place), store, engine_url)
        try:
            yield found
        finally:
            found.end()
            assert found.pids() == []


def run(directory: Path, *, messages: int) -> None:
    """Archive so many messages to S3 on two workers, then count them there by the README's lines for Spark."""
    bodies = [b"%d" % number for number in range(messages)]
    with closing(ObjectStore()) as server, EngineProcess(directory / "server", options=("--storage=log",)) as engine:
        for first in range(0, messages, 500):
            publish(engine, TOPIC, bodies[first : first + 500])
        switch_on(engine, TOPIC)
        (directory / "server").chmod(0o700)
        store = server.environment
        with machines(store, f"http://127.0.0.1:{engine.http_port}") as cluster:
            _run_recipe(cluster, engine, bodies, store)


def _run_recipe(cluster: Machines, engine: EngineProcess, bodies: list[bytes], store: Mapping[str, str]) -> None:
    master_command, worker_command, job_command = recipe()
    master = cluster.start("master", master_command)
    wait_for("the master", lambda: _has(master, "Starting Spark master at"), timeout_s=START_TIMEOUT_S)
    is_root = os.getuid() == 0
    workers = [cluster.start(f"worker-{number}", worker_command, as_nobody=is_root) for number in range(2)]
    for worker in workers:
        wait_for("a worker", lambda: _has(worker, "Successfully registered"), timeout_s=START_TIMEOUT_S)  # noqa: B023
    job = cluster.start("job", job_command)
    wait_for("the archive", lambda: _is_archived(job, engine), timeout_s=JOB_TIMEOUT_S, every_s=0.5)
    for worker in workers:
        assert _has(worker, "Asked to launch executor"), "it had no part in it"
        if is_root:
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in worker.pids()} == {NOBODY}
    arguments = b" ".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in cluster.pids())
    assert SECRET.encode() not in arguments
    found = (
        DeltaTable(f"{LAKE}/archive/{TOPIC}", storage_options={**store, "AWS_ALLOW_HTTP": "true"})
        .to_pyarrow_table()
        .sort_by("offset")
    )
    assert found.column("offset").to_pylist() == list(range(len(bodies)))
    assert found.column("body").to_pylist() == bodies
    os.kill(_driver_of(job), signal.SIGTERM)
    job.wait(JOB_TIMEOUT_S)
    reader = _READER.format(lines=_block("reader: spark", "python").replace("2026-11-20", "2020-01-01"))
    path = f"{LAKE}/archive/{TOPIC}"
    read = cluster.start(
        "reader", f"{recipe_before()}\nexec $PYSPARK_PYTHON - {cluster.master} {path} <<'E'\n{reader}\nE"
    )
    read.wait(JOB_TIMEOUT_S)
    assert f"COUNTED {len(bodies)}\n" in read.log


def recipe_before() -> str:
    """The lines that stand before each command."""
    return _block("recipe: cluster", "sh").strip().partition("\n\n")[0]


def _has(session: ProcessSession, text: str) -> bool:
    assert session.is_running, session.log[-5_000:]
    return text in session.log


def _driver_of(job: ProcessSession) -> int:
    """The process that the command has become; Java and Python's daemon are its children."""
    return min(pid for pid in job.pids() if b"queue_engine.lake.jobs" in Path(f"/proc/{pid}/cmdline").read_bytes())


def _is_archived(job: ProcessSession, engine: EngineProcess) -> bool:
    assert job.is_running, job.log[-5_000:]
    return cursor_of(engine, TOPIC).depth == 0
