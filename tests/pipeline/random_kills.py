"""The archive and its housekeeping, killed at random moments, until all is done: on a disk, or on a store that is slow,
loses requests and answers, and wants fewer of them.

`kill_archive.py` has the command.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.archive.archive_table import archive_table
from queue_engine.lake.archive.summary import read_summary
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.housekeeping.report import read_report
from tests.pipeline.archive_reading import archives, lake_tables, publish, switch_on
from tests.pipeline.archive_worker import READY
from tests.pipeline.job_process import ROOT
from tests.support.object_store import Fate, ObjectStore
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

TOPICS = 10
BATCH = 500
BODY_BYTES = 100
START_TIMEOUT_S = 120
END_TIMEOUT_S = 900
# A kill comes at most so long after the start: by then a round's messages are archived, merged or neither.
WINDOW_S = 8.0


def size_of(topic: int, messages: int) -> int:
    """Messages of a topic: half of all are in the first one."""
    return messages // 2 if topic == 0 else messages // 2 // (TOPICS - 1)


def body(topic: int, number: int) -> bytes:
    return b"%d/%d " % (topic, number) + b"x" * (BODY_BYTES - 20)


class BadStore:
    """Makes a store slow, and lose requests and answers, by chance."""

    def __init__(self, store: ObjectStore, chance: random.Random) -> None:
        self._chance = chance
        self.met: Counter[str] = Counter()
        store.fate = self._fate

    def _fate(self, method: str, path: str) -> Fate:
        time.sleep(self._chance.random() * 0.02)
        found = self._chance.random()
        for fate, limit in ((Fate.CUT, 0.01), (Fate.LOSE_ANSWER, 0.02), (Fate.BUSY, 0.03)):
            if found < limit:
                self.met[f"{fate.name} {method}{' of a commit' if '_delta_log/' in path else ''}"] += 1
                return fate
        return Fate.PASS


class RandomKills:
    """place: of the tables, "" for the lake itself."""

    def __init__(
        self,
        directory: Path,
        engine: EngineProcess,
        place: str,
        messages: int,
        kills: int,
        chance: random.Random,
        *,
        window_s: float = WINDOW_S,
    ) -> None:
        self._directory = directory
        self._engine = engine
        self._place = place
        self._kills = kills
        self._chance = chance
        self._window_s = window_s
        self._lake = Lake(str(directory / "pipeline"))
        self._client = LogClient(f"http://127.0.0.1:{engine.http_port}")
        self._sizes = [size_of(topic, messages) for topic in range(TOPICS)]
        # A round's messages are some steps.
        self._step_rows = max(messages // (kills + 1) // 3, 1)
        self._ends = [0] * TOPICS
        self.met: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._seen: set[int] = set()
        self.log_path = directory / "archive.log"

    def run(self) -> None:
        for number in range(self._kills + 1):
            self._publish(number)
            if number < self._kills:
                self._kill()
        self._finish()

    def _publish(self, part: int) -> None:
        for topic, size in enumerate(self._sizes):
            begin, end = size * part // (self._kills + 1), size * (part + 1) // (self._kills + 1)
            for first in range(begin, end, BATCH):
                bodies = [body(topic, number) for number in range(first, min(first + BATCH, end))]
                publish(self._engine, f"killed-{topic}", bodies)
            if not part:
                switch_on(self._engine, f"killed-{topic}")

    def _kill(self) -> None:
        """Start both jobs, kill them at a random moment, and judge what is there."""
        process = self._started()
        after_s = self._chance.random() * self._window_s
        time.sleep(after_s)
        assert process.poll() is None, self._end_of_log()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.met["kills"] += 1
        self._count_done()
        self._check()

    def _finish(self) -> None:
        """Run to the end, and judge every message."""
        process = self._started()

        def is_done() -> bool:
            assert process.poll() is None, self._end_of_log()
            return self._is_archived() and self._is_summed_up()

        wait_for("all to be archived and summed up", is_done, timeout_s=END_TIMEOUT_S, every_s=1)
        process.terminate()
        assert process.wait(START_TIMEOUT_S) == 0, self._end_of_log()
        self._count_done()
        self._check()
        found = {one.identity.topic: one for one in archives(self._lake, place=self._place)}
        assert len(found) == TOPICS
        for topic, size in enumerate(self._sizes):
            one = found[f"killed-{topic}"]
            rows = one.rows.sort_by("offset")
            assert (one.begin_offset, one.next_offset, one.gaps) == (0, size, ())
            assert rows.column("offset").to_pylist() == list(range(size))
            expected = pa.chunked_array([[body(topic, number) for number in range(size)]], pa.binary())
            assert pc.all(pc.equal(rows.column("body"), expected)).as_py()
        summary = read_summary(self._lake) or {}
        assert {topic: (one.rows, one.next_offset, one.error) for topic, one in summary.items()} == {
            f"killed-{topic}": (size, size, "") for topic, size in enumerate(self._sizes)
        }

    def _started(self) -> "subprocess.Popen[str]":
        with self.log_path.open("a") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.pipeline.archive_worker", self._lake.path),
                    *(self._client.url, self._place, str(self._step_rows)),
                ],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY, self._end_of_log()
        return process

    def _check(self) -> None:
        """Check the tables by their commits: every offset in one file, none beyond, no cursor beyond its table."""
        cursors = {one.topic: one.offset for one in self._client.cursor_list()}
        before = self._ends
        self._ends = [0] * TOPICS
        for topic in range(TOPICS):
            for one in archives(self._lake, f"killed-{topic}", place=self._place):
                # Reading it has checked each file, and that every offset is there once.
                self._ends[topic] = one.next_offset
                assert one.gaps == ()
            assert cursors[f"killed-{topic}"] <= self._ends[topic], (topic, cursors, self._ends)
            assert before[topic] <= self._ends[topic], (topic, before, self._ends)
            if cursors[f"killed-{topic}"] < self._ends[topic]:
                self.met["a cursor behind its table"] += 1

    def _count_done(self) -> None:
        try:
            runs = read_report(Path(self._lake.path)).runs
        except OSError:
            return
        for one in runs:
            if one.at_ms in self._seen:
                continue
            self._seen.add(one.at_ms)
            self.done["files merged"] += one.merged_files
            self.done["files removed"] += one.removed_files
            self.done["problems"] += len(one.problems)

    def _is_archived(self) -> bool:
        return all(one.offset == one.synced_offset for one in self._client.cursor_list())

    def _is_summed_up(self) -> bool:
        """Whether the summary is of the tables as they are."""
        tables = lake_tables(self._lake, self._place)
        summary = read_summary(self._lake) or {}
        return len(summary) == TOPICS and all(
            archive_table(tables, topic).refresh() == one.table_version for topic, one in summary.items()
        )

    def _end_of_log(self) -> str:
        return self.log_path.read_text(errors="replace")[-5000:]
