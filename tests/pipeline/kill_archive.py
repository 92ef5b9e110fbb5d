"""Archives and replays under kill -9, until all is done: every message once, nothing half-written ever visible.

    python -m tests.pipeline.kill_archive --messages 1000000 --kills 10
    python -m tests.pipeline.kill_archive --messages 1000000 --kills 10 --lake disk     or s3

Nothing in the product knows of it: the archive's process kills itself at the moment that is wanted (kill_moments.py), a
replay's is killed from outside once it has published so much. What a kill has really met is read from what it left.
With --lake the archive has housekeeping beside it, and both are killed at random moments (random_kills.py).
"""

import argparse
import contextlib
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from queue_engine.client.log_api.log_client import LogClient
from queue_engine.lake.directory.lake import Lake
from queue_engine.lake.replay.plan import read_progress
from queue_engine.lake.replay.planning import plan_replay
from queue_engine.lake.replay.request import ReplayRequest
from tests.pipeline.archive_reading import (
    archives,
    data_files,
    job,
    named_files,
    publish,
    published,
    switch_on,
)
from tests.pipeline.job_process import JobProcess
from tests.pipeline.kill_moments import COMMITTED, MOMENTS, NAMED
from tests.pipeline.random_kills import BadStore, RandomKills
from tests.support.object_store import BUCKET, ObjectStore
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

TOPICS = 40
BATCH = 500
BODY_BYTES = 200
FAST_PER_S = 1_000_000
KILL_TIMEOUT_S = 600


def size_of(topic: int, messages: int) -> int:
    """Messages of a topic: half of all are in the first one."""
    return messages // 2 if topic == 0 else messages // 2 // (TOPICS - 1)


def body(topic: int, number: int) -> bytes:
    return b"%d/%d " % (topic, number) + b"x" * (BODY_BYTES - 20)


class ArchiveKills:
    """One engine with `messages` in TOPICS topics, and a lake that is to hold them all after so many kills.

    job: of the archive's process, see job_process.py.
    """

    def __init__(self, directory: Path, engine: EngineProcess, messages: int, kills: int, job: str) -> None:
        self._directory = directory
        self._engine = engine
        self._job = job
        self._url = f"http://127.0.0.1:{engine.http_port}"
        self._client = LogClient(self._url)
        self._lake = Lake(str(directory / "pipeline"))
        self._sizes = [size_of(topic, messages) for topic in range(TOPICS)]
        # So that a step has many topics, and there are more steps than kills finish.
        self._step_rows = max(messages // (kills + 3), 1)
        self.met: Counter[str] = Counter()

    def publish(self) -> None:
        for topic in range(TOPICS):
            for first in range(0, self._sizes[topic], BATCH):
                after = min(first + BATCH, self._sizes[topic])
                publish(self._engine, f"killed-{topic}", [body(topic, number) for number in range(first, after)])
            switch_on(self._engine, f"killed-{topic}")

    def kill(self, moment: str, step: int) -> None:
        """Start the archive, which is killed at the moment of that step, and see that this is what was met."""
        leftovers = self._unnamed()
        self._process(moment, str(step)).wait_killed()
        self._check_visible()
        found = self._found(leftovers, moment)
        # Where a step has one topic left, all of it is committed at once.
        expected = (COMMITTED, NAMED) if moment == COMMITTED else (moment,)
        assert found in expected, f"killed when {moment}, step {step}; found: {found}"
        self.met[moment] += 1

    def finish(self) -> None:
        """Run to the end, and check that every message is there once."""
        self._process().wait()
        found = {one.identity.topic: one for one in archives(self._lake)}
        assert len(found) == TOPICS
        for topic in range(TOPICS):
            one = found[f"killed-{topic}"]
            table = one.rows.sort_by("offset")
            assert (one.begin_offset, one.gaps) == (0, ())
            assert table.column("offset").to_pylist() == list(range(self._sizes[topic]))
            expected = pa.chunked_array([[body(topic, number) for number in range(self._sizes[topic])]], pa.binary())
            assert pc.all(pc.equal(table.column("body"), expected)).as_py()
        moved = {one.topic: one.offset for one in self._client.cursor_list()}
        assert moved == {f"killed-{topic}": self._sizes[topic] for topic in range(TOPICS)}
        assert named_files(self._lake) <= data_files(self._lake)

    def _process(self, *death: str) -> JobProcess:
        log = self._directory / "archive.log"
        return JobProcess(log, self._lake.path, self._url, self._job, str(self._step_rows), *death)

    def _unnamed(self) -> set[str]:
        """Data files that no commit names."""
        return data_files(self._lake) - named_files(self._lake)

    def _is_ahead(self) -> bool:
        """Whether a topic's table is ahead of its cursor."""
        moved = {one.topic: one.offset for one in self._client.cursor_list()}
        return any(one.next_offset > moved[one.identity.topic] for one in archives(self._lake))

    def _found(self, leftovers: set[str], moment: str) -> str:
        """What a kill has left. leftovers: files that earlier ones left."""
        has_new = bool(self._unnamed() - leftovers)
        if self._is_ahead():
            return COMMITTED if has_new else NAMED
        # The gaps' commit can't be seen in steps without any.
        return moment if has_new and moment not in (COMMITTED, NAMED) else "nothing"

    def _check_visible(self) -> None:
        """Check that every row that counts is one that was published."""
        for one in archives(self._lake):
            topic = int(one.identity.topic.removeprefix("killed-"))
            for offset, found in zip(*one.rows.select(["offset", "body"]).to_pydict().values(), strict=True):
                assert found == body(topic, offset)


class ReplayKills:
    """A replay of the archive of the first topic, killed as it goes."""

    def __init__(self, directory: Path, engine: EngineProcess) -> None:
        self._directory = directory
        self._engine = engine
        self._url = f"http://127.0.0.1:{engine.http_port}"
        self._client = LogClient(self._url)
        self._lake = Lake(str(directory / "pipeline"))
        self.count = 0
        self.met: Counter[str] = Counter()

    def plan(self, spark: object, topic: str) -> None:
        with self._lake.lock():
            context = job(spark, self._lake, self._engine).context
            plan = plan_replay(context, ReplayRequest("killed", topic, "again", rate_per_s=500))
        self.count = plan.count

    def kill(self, done: float) -> None:
        """Kill it once that part of the messages is published."""
        process = self._process(self.count)
        try:
            part = int(done * self.count)
            wait_for(
                f"{part} published messages",
                lambda: not process.is_running or self._published() >= part,
                timeout_s=KILL_TIMEOUT_S,
                every_s=0.001,
            )
        finally:
            process.kill9()
        progress = read_progress(self._lake, "killed")
        ahead = self._published() - (0 if progress is None else progress.sent)
        self.met["published, before the progress" if ahead else "between steps"] += 1
        assert ahead >= 0

    def finish(self, expected: list[bytes]) -> None:
        self._process(FAST_PER_S).wait()
        assert published(self._engine, "again", is_replayed=True) == expected

    def _process(self, rate_per_s: int) -> JobProcess:
        log = self._directory / "replay.log"
        return JobProcess(log, self._lake.path, self._url, "replay", "killed", str(rate_per_s))

    def _published(self) -> int:
        try:
            return self._client.topic("again").synced_offset
        except Exception:
            return 0


def run_archive(
    directory: Path, engine: EngineProcess, *, messages: int, kills: int, job: str = "archive"
) -> Counter[str]:
    """Kill the run so many times, four at least, at all moments in turn, then run it to the end. Returns counts."""
    kinds = ArchiveKills(directory, engine, messages, kills, job)
    kinds.publish()
    for number in range(kills):
        # Each moment in the first step of a run, then in the second.
        kinds.kill(MOMENTS[number % len(MOMENTS)], 1 + number // len(MOMENTS) % 2)
    kinds.finish()
    assert all(kinds.met[moment] for moment in MOMENTS), kinds.met
    return kinds.met


def run_replay(directory: Path, engine: EngineProcess, spark: object, *, messages: int, kills: int) -> Counter[str]:
    """The same of a replay of the first topic's archive, which run_archive has made."""
    kinds = ReplayKills(directory, engine)
    kinds.plan(spark, "killed-0")
    assert kinds.count == size_of(0, messages)
    for number in range(kills):
        kinds.kill((number + 1) / (kills + 1))
    kinds.finish([body(0, number) for number in range(size_of(0, messages))])
    assert kinds.met["published, before the progress"], kinds.met
    return kinds.met


def run_random(lake: str, *, messages: int, kills: int, seed: int) -> None:
    """Kill the archive and its housekeeping at random moments, then run them to the end, on a disk or on S3."""
    chance = random.Random(seed)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place, bad = "", None
        if lake == "s3":
            store = ObjectStore()
            stack.callback(store.close)
            os.environ.update(store.environment)
            place = f"s3://{BUCKET}/killed"
            bad = BadStore(store, chance)
        engine = stack.enter_context(EngineProcess(directory / "engine", options=["--storage=log"]))
        begin = time.monotonic()
        kinds = RandomKills(directory, engine, place, messages, kills, chance)
        kinds.run()
        print(
            f"archive of {messages:,} messages on {lake}: {dict(kinds.met)}; housekeeping: {dict(kinds.done)};"
            f" requests lost: {dict(bad.met) if bad else {}}; {time.monotonic() - begin:.0f} s"
        )


def main() -> None:
    from queue_engine.lake.spark.session import make_session

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--lake", choices=("disk", "s3"), help="kill at random moments, with housekeeping beside")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.lake:
        run_random(given.lake, messages=given.messages, kills=given.kills, seed=given.seed)
        return
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        with EngineProcess(directory / "engine", options=["--storage=log"]) as engine:
            begin = time.monotonic()
            met = run_archive(directory, engine, messages=given.messages, kills=given.kills)
            print(f"archive of {given.messages:,} messages, killed: {dict(met)}; {time.monotonic() - begin:.0f} s")
            begin = time.monotonic()
            spark = make_session("plan", scratch=directory / "scratch", master="local[2]")
            met = run_replay(directory, engine, spark, messages=given.messages, kills=given.kills)
            count = size_of(0, given.messages)
            print(f"replay of {count:,} messages, killed: {dict(met)}; {time.monotonic() - begin:.0f} s")
            spark.stop()


if __name__ == "__main__":
    main()
