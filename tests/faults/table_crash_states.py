"""Crash states of a Delta table on a disk: commits, checkpoints, a replaced partition, a merge,
a vacuum, and a log that is cleaned up.

    python -m tests.faults.table_crash_states --states 20000 --seed 7

A script commits to a table in a real directory, whose syncs are recorded, since delta-rs writes by itself and syncs
nothing. Before each operation of ours, a power cut is tried: the directory that it may leave is opened by a new process
and judged:

- what was acknowledged counts, once; of the step that was under way all or nothing
- the table opens, whatever was torn; the step that was under way is made again, and then everything is there once
- every file that counts is whole
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from queue_engine.lake.tables.housekeeping import clean_log, merge, vacuum
from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import LakeTable
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.tables.table_places import APP, DATE, PATH, SCHEMA, data_file, offsets_of
from tests.support.disks.files import ProcessDiedError
from tests.support.disks.synced_tree import SyncedFiles

DAY = "day"


@dataclass
class Script:
    """One run of a script over a table in `root`; `check` is called before each operation on its disk.

    Now and then its process dies in the middle, and another one makes the same step again.

    acked: offsets that were acknowledged to be archived. begun: those of the commit under way. The partition DATE is
    replaced now and then by files with the same offsets, so that nothing but the offsets is to be judged.
    """

    root: Path
    random: Random
    check: Callable[["Script"], None]
    acked: int = 0
    begun: int = 0
    dies_after: int = 0
    files: SyncedFiles = field(init=False)

    def __post_init__(self) -> None:
        self.files = SyncedFiles(self.root, self.step)

    def step(self) -> None:
        self.check(self)
        if self.dies_after:
            self.dies_after -= 1
            if not self.dies_after:
                raise ProcessDiedError

    def run(self) -> None:
        acts = [
            *(self.commit, self.commit, self.checkpoint, self.commit, self.replace, self.clean, self.commit),
            *(self.commit, self.merge, self.vacuum, self.checkpoint, self.clean, self.commit),
        ]
        process = self.process()
        for act in acts:
            self.begun = self.acked + self.random.randrange(1, 4)
            self.dies_after = self.random.randrange(1, 12) if self.random.random() < 0.4 else 0
            try:
                act(*process)
            except ProcessDiedError:
                process = self.process()
                if self.random.random() < 0.5 and (known := process[1].transaction(APP)):
                    # A cursor moves to what the next process is told.
                    self.acked = max(self.acked, known)
                if self.acked < self.begun or act != self.commit:
                    act(*process)
            self.dies_after = 0
        self.check(self)

    def process(self) -> tuple[TableStorage, LakeTable]:
        storage = TableStorage(self.root / "lake", files=self.files)
        return storage, LakeTables(storage).open(PATH, SCHEMA)

    def commit(self, storage: TableStorage, table: LakeTable) -> None:
        file = data_file(storage, self.acked, self.begun)
        table.commit([file], APP, self.begun, after=self.acked or None)
        self.acked = self.begun

    def replace(self, storage: TableStorage, table: LakeTable) -> None:
        self.begun = self.acked
        whole = data_file(storage, 0, self.acked)
        known = table.transaction(DAY)
        table.overwrite({"date": DATE}, [whole], DAY, (known or 0) + 1, after=known)

    def checkpoint(self, storage: TableStorage, table: LakeTable) -> None:
        self.begun = self.acked
        table.checkpoint()

    def merge(self, storage: TableStorage, table: LakeTable) -> None:
        self.begun = self.acked
        table.refresh()
        files = sorted(table.files(), key=lambda one: int(one.minimum["offset"]))
        if len(files) > 1:
            merge(table, files)

    def vacuum(self, storage: TableStorage, table: LakeTable) -> None:
        self.begun = self.acked
        vacuum(table, retention_ms=0, unnamed_age_ms=0)

    def clean(self, storage: TableStorage, table: LakeTable) -> None:
        self.begun = self.acked
        clean_log(table, keep_ms=0)


def judge(root: Path, script: Script) -> None:
    """Raises AssertionError when the table in `root`, what a power cut left, breaks a promise."""
    storage = TableStorage(root / "lake")
    table = LakeTables(storage).open(PATH, SCHEMA)
    known = table.transaction(APP) or 0
    assert known in (script.acked, script.begun), f"transaction {known}"
    if table.exists():
        assert offsets_of(table) == list(range(known)), "rows"
    else:
        assert script.acked == 0, "no table"
    table.commit([data_file(storage, known, known + 3)], APP, known + 3, after=known or None)
    again = LakeTables(storage).open(PATH, SCHEMA)
    assert again.transaction(APP) == known + 3
    assert offsets_of(again) == list(range(known + 3)), "rows after one more step"


def run_states(states: int, seed: int, directory: Path) -> int:
    """Try about so many states. Returns how many there were."""
    tried = 0
    for number in numbers(seed):
        random = Random(number)

        def check(script: Script, number: int = number, random: Random = random) -> None:
            nonlocal tried
            for kind in range(2):
                tried += 1
                target = directory / "cut"
                script.files.power_cut(target, random)
                try:
                    judge(target, script)
                except Exception as exc:
                    raise AssertionError(f"seed {number}, state {tried}, luck {kind}, left in {target}: {exc}") from exc
                shutil.rmtree(target)

        root = directory / f"run-{number}"
        root.mkdir()
        Script(root, random, check).run()
        shutil.rmtree(root)
        if tried >= states:
            return tried
    raise AssertionError


def numbers(seed: int) -> Iterator[int]:
    while True:
        yield seed
        seed += 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--states", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as path:
        count = run_states(options.states, options.seed, Path(path))
    print(f"{count} states, seed {options.seed}, {time.monotonic() - started:.0f} s: all as promised")
