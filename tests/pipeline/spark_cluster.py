"""Spark's standalone cluster on loopback: a master and workers, of what the package PySpark brings.

It has no scripts that start them, but their classes, and `spark-class` to run them.
"""

import os
import re
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson
import pyspark

from queue_engine.lake.spark.java import find_java
from tests.support.processes.process_sessions import ProcessSession
from tests.support.waiting import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 90.0
EXECUTOR_MEMORY = "512m"
# Short lives: small heaps, and no second compiler.
_DAEMON_MEMORY = "192m"
_JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_PAGE_AT = re.compile(r"MasterWebUI.* started at (http://\S+)")


class SparkCluster:
    """One master, and workers with one core each. Use as a context.

    Its processes get nothing of the caller's environment but the PATH: neither this package nor a setting of Spark's
    comes to the executors unless a job brings it. master: its address, once started.
    """

    def __init__(self, directory: Path, *, workers: int = 2) -> None:
        self.directory = directory
        self.master = ""
        self._page = ""
        self._workers = workers
        self._sessions: list[ProcessSession] = []
        self._environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "JAVA_HOME": str(find_java(os.environ, directory / "java").home),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }

    def environment(self, **settings: str) -> dict[str, str]:
        """Of a process that starts jobs here. settings: Spark's, with _ for each dot; as a person writes them in
        spark-defaults.conf."""
        named = {
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
            "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        conf = self.directory / f"conf-{len(list(self.directory.glob('conf-*')))}"
        conf.mkdir()
        (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in named.items()))
        return {**self._environment, "SPARK_CONF_DIR": str(conf)}

    def start(self) -> None:
        """Returns once all workers are known to the master."""
        self.directory.mkdir(parents=True, exist_ok=True)
        common = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = self._start("master", "master.Master", *common)
        self.master = self._found(master, _MASTER_AT)
        self._page = self._found(master, _PAGE_AT)
        for number in range(self._workers):
            work = self._work(number)
            self._start(
                f"worker-{number}",
                "worker.Worker",
                *common,
                "-c",
                "1",
                "-m",
                EXECUTOR_MEMORY,
                "-d",
                str(work),
                self.master,
            )
        wait_for("the workers", self._is_whole, timeout_s=START_TIMEOUT_S, every_s=0.1)

    def state(self) -> Mapping[str, Any]:
        """The master's state: "aliveworkers", "activeapps", "completedapps" and more."""
        with urllib.request.urlopen(f"{self._page}/json/", timeout=60) as answer:
            found: dict[str, Any] = orjson.loads(answer.read())
            return found

    def done(self) -> dict[str, str]:
        """The final state of each application that has ended, by its id: FINISHED when it ended by itself."""
        return {one["id"]: one["state"] for one in self.state()["completedapps"]}

    def executors_of(self, app_id: str) -> list[int]:
        """How many executors each worker had for an application."""
        return [len(list(self._work(number).glob(f"{app_id}/[0-9]*"))) for number in range(self._workers)]

    def memory_bytes(self) -> int:
        return sum(session.memory_bytes() for session in self._sessions)

    def pids(self) -> list[int]:
        return [pid for session in self._sessions for pid in session.pids()]

    def stop(self) -> None:
        """Workers first: they end their executors."""
        for session in reversed(self._sessions):
            session.end()

    def _work(self, number: int) -> Path:
        return self.directory / f"work-{number}"

    def _start(self, name: str, kind: str, *arguments: str) -> ProcessSession:
        environment = self._environment | {
            "SPARK_DAEMON_MEMORY": _DAEMON_MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": _JAVA_OPTIONS,
        }
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        session = ProcessSession(self.directory / f"{name}.log", command, cwd=self.directory, environment=environment)
        self._sessions.append(session)
        return session

    def _found(self, session: ProcessSession, pattern: re.Pattern[str]) -> str:
        def look() -> str:
            assert session.is_running, session.log
            match = pattern.search(session.log)
            return match[1] if match else ""

        return wait_for(pattern.pattern, look, timeout_s=START_TIMEOUT_S, every_s=0.1)

    def _is_whole(self) -> bool:
        assert all(session.is_running for session in self._sessions), self._sessions[-1].log
        return bool(self.state()["aliveworkers"] == self._workers)

    def __enter__(self) -> "SparkCluster":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
