"""Writers in several processes that make the same steps at the same time: each step counts once."""

import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.lake.tables.storage import TableStorage
from queue_engine.lake.tables.table import CommitResult
from queue_engine.lake.tables.tables import LakeTables
from tests.pipeline.tables.table_places import APP, PATH, SCHEMA, data_file, offsets_of

STEPS = 15
WRITERS = 3


def write(lake: str) -> int:
    """Make all steps. Returns how many of them this process committed. It begins when its input ends."""
    storage = TableStorage(lake)
    table = LakeTables(storage).open(PATH, SCHEMA)
    print("ready", flush=True)
    sys.stdin.read()
    committed = 0
    for number in range(STEPS):
        first = number * 10
        file = data_file(storage, first, first + 10)
        committed += table.commit([file], APP, first + 10, after=first or None) is CommitResult.COMMITTED
    return committed


@pytest.mark.slow(reason="starts processes")
def test_steps_that_three_processes_make_count_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.pipeline.tables.test_racing_writers", str(tmp_path / "lake")]
    writers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)
    ]
    try:
        for one in writers:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        for one in writers:
            assert one.stdin is not None
            one.stdin.close()
        counts = []
        for one in writers:
            assert one.stdout is not None
            counts.append(int(one.stdout.read()))
            assert one.wait() == 0
    finally:
        for one in writers:
            one.kill()
            one.wait()
            for stream in (one.stdin, one.stdout):
                if stream is not None:
                    stream.close()
    table = LakeTables(TableStorage(tmp_path / "lake")).open(PATH, SCHEMA)
    assert sum(counts) == STEPS
    assert (table.transaction(APP), table.version) == (STEPS * 10, STEPS)
    assert offsets_of(table) == list(range(STEPS * 10))


if __name__ == "__main__":
    print(write(sys.argv[1]))
