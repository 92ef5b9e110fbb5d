"""Makes the pipeline's Spark session, with the settings that every job relies on."""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.java_gateway import ClientServer, JavaObject, ensure_callback_server_started
from pyspark.sql import SparkSession

from queue_engine.lake.spark import java_log
from queue_engine.lake.spark.java import find_java
from queue_engine.lake.spark.worker_limits import DEFAULT

# The checkpoint of a stateful stream fixes this number: with another one the stream has to begin again.
SHUFFLE_PARTITIONS = 2

# The folders that Spark's launcher looks for in its home.
_HOME_NAMES = ("bin", "jars")

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    # Days and hours are the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Without it a read from a Python source that takes filters fails.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    # Other timestamp types have no statistics, by which readers skip files.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Every user of this machine reaches the ports of the driver and its block manager. Without this setting they run
    # any code that arrives and return any block. Spark makes a secret at each start, which stays in Java's memory. On a
    # cluster, the cluster's own settings decide.
    "spark.authenticate": "true",
    # Without this the older protocol, DIGEST-MD5, is used.
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.python.daemon.module": "queue_engine.lake.spark.python_daemon",
}
_JAVA_OPTIONS = " ".join(
    (
        # One process beside a message queue: a small collector and quick compilation matter more than peak speed. The
        # slow compiler would take half of all that waiting streams cost, and of a start, for an archive a tenth
        # quicker. Without that compiler Java reserves 48 MB for compiled code; full, it ends the process. Reserved
        # memory costs nothing until it is used.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:ReservedCodeCacheSize=240m",
        # Java begins with a 64th of the machine's memory, and gives little of it back. Here the heap follows the
        # objects in use, beside 128 MiB for short-lived objects: with half of that, an archive takes a tenth more of a
        # core.
        "-Xms160m",
        "-XX:NewSize=128m",
        "-XX:MaxNewSize=128m",
        "-XX:MinHeapFreeRatio=25",
        "-XX:MaxHeapFreeRatio=50",
        # Spark's classes fill 160 MB. The first value saves the collections on the way there; at the second one, Java
        # unloads the classes of queries that are gone.
        "-XX:MetaspaceSize=192m",
        "-XX:MaxMetaspaceSize=384m",
        "-Xss512k",
    )
)
CRASH_REPORT_NAME = "java-crash.log"
# Each thread of Java that allocates beside the heap would get an arena of its own.
_ARENAS = "MALLOC_ARENA_MAX"


def is_this_machine(master: str) -> bool:
    """Whether Spark runs within one Java, started by this process. `local-cluster` starts others, as a cluster does."""
    return master == "local" or master.startswith("local[")


def _crash_options(scratch: Path) -> str:
    """Java's options for a crash: it writes one report, which the next one replaces. Without them each crash leaves a
    report, and maybe a core dump of a gigabyte, in the directory that the process was started in."""
    # Java replaces %p by its process id; Spark's launcher splits the options at blanks outside of quotes.
    path = str((scratch / CRASH_REPORT_NAME).absolute()).replace("%", "%%")
    quoted = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'-XX:-CreateCoredumpOnCrash "-XX:ErrorFile={quoted}"'


def make_session(
    app_name: str,
    *,
    scratch: Path,
    master: str | None = None,
    memory_bytes: int = DEFAULT.memory_bytes,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Make the session of this process.

    scratch: a directory for temporary files of Spark and Java. master: None when spark-submit has named one.
    memory_bytes: of Java on this machine; on a cluster Spark's own settings decide. extra: settings that override ours.
    Raises JavaMissingError, OSError.
    """
    os.environ["JAVA_HOME"] = str(find_java(os.environ, scratch / "java").home)
    # Spark's Python processes run this interpreter: another one has not our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    settings = dict(_SETTINGS)
    if master is not None:
        builder = builder.master(master)
        if is_this_machine(master):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            os.environ.setdefault(_ARENAS, "2")
            if "SPARK_HOME" not in os.environ:
                os.environ["SPARK_HOME"] = str(lean_spark_home(scratch / "spark_home"))
            settings |= _LOCAL_SETTINGS
            log_option = java_log.java_option(scratch, os.environ)
            settings["spark.driver.extraJavaOptions"] = f"{_JAVA_OPTIONS} {_crash_options(scratch)} {log_option}"
            settings["spark.driver.memory"] = f"{memory_bytes >> 20}m"
            settings["spark.local.dir"] = str(scratch / "spark")
            settings["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    settings |= dict(extra or {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    # py4j logs every connection that the end of a process closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    session: SparkSession = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    _require_token(session.sparkContext._gateway)
    return session


def lean_spark_home(directory: Path) -> Path:
    """Make `directory` a home of the installed pyspark, by links, and return it. Raises OSError.

    It lacks the zip files that hold another copy of Spark's Python packages. Spark puts `<home>/python/lib/pyspark.zip`
    first on the path of the Python processes that it starts, and Python compiles every module from a zip file again. A
    data source starts eight such processes before its first row; without the zip files they import the installed
    package, which is compiled: half a second less each.
    """
    package = Path(pyspark.__file__).parent
    directory.mkdir(parents=True, exist_ok=True)
    for name in _HOME_NAMES:
        # Two processes may do this at the same time, and pyspark may be another version than last time.
        temporary = directory / f"{name}.{os.getpid()}.tmp"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(package / name)
        os.replace(temporary, directory / name)
    return directory


def _require_token(gateway: Any) -> None:
    """Open the port for Java's calls into Python, by which `foreachBatch` runs; they need the token of calls to Java.

    PySpark opens a port on loopback for them, and any user of the machine could call the functions behind it. py4j,
    which carries the calls, has a token for each direction, but PySpark sets only the one of calls to Java, and py4j's
    Java drops its token when it gets the port's number. So the token is set on both sides.

    gateway: the session's. A gateway without pinned threads (PYSPARK_PIN_THREAD=false) stays as it is.
    """
    if not isinstance(gateway, ClientServer) or gateway.python_parameters.auth_token:
        return
    token = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = token
    ensure_callback_server_started(gateway)
    caller = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(caller, token)
