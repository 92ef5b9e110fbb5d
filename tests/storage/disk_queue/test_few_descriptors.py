"""More disk queues than descriptors."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from queue_engine.storage.disk.descriptors import DescriptorBudget
from tests.support.disks.files import FaultyFiles
from tests.support.stores.disk_queue import QueueFolder, put, take_all


def test_more_queues_than_descriptors_can_be_at_work(tmp_path: Path) -> None:
    files = FaultyFiles(DescriptorBudget(8))
    folder = QueueFolder(tmp_path, files=files)
    queues = []
    for number in range(100):
        folder.name = f"t:{number}"
        queues.append(folder.open())
    most = 0
    for turn in range(3):
        for queue in queues:
            put(queue, b"%s turn %d" % (queue.name.encode(), turn))
            most = max(most, len(files.open_fds))
    for queue in queues:
        assert queue.peek() == queue.name.encode() + b" turn 0"
        assert len(take_all(queue, 2)) == 3
        most = max(most, len(files.open_fds))
    assert most <= 16
    # What was closed to make room had been synced before, so nothing is left over now.
    for queue in queues:
        queue.close()
    assert files.open_fds == set()


def test_a_process_out_of_descriptors_makes_idle_queues_give_theirs_back(tmp_path: Path) -> None:
    files = FaultyFiles()
    folder = QueueFolder(tmp_path, files=files)
    idle, busy = folder.open(), QueueFolder(tmp_path, "busy", files).open()
    put(idle, b"a", b"b")
    idle.start_sync()
    assert idle.peek() == b"a"
    assert len(files.open_fds) == 2
    files.fail("open", errno.EMFILE)
    put(busy, b"c")
    assert len(files.open_fds) == 1
    assert idle.take(2, 100) == [b"a", b"b"]


@pytest.mark.slow(reason="starts a process with few descriptors")
def test_five_hundred_queues_work_under_a_limit_of_256_descriptors(tmp_path: Path) -> None:
    script = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from pathlib import Path
from tests.support.stores.background import HeldBackground
from tests.support.stores.disk_queue import QueueFolder, put, take_all
folder = QueueFolder(Path(sys.argv[1]), options={"max_bytes_per_file": 40})
queues = []
for number in range(500):
    folder.name = f"topic:{number}"
    queues.append(folder.open())
for turn in range(2):
    for queue in queues:
        put(queue, *[b"%d" % number for number in range(12)])
print(sum(take_all(queue) == [b"%d" % number for number in range(12)] * 2 for queue in queues))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.stdout, done.returncode) == ("500\n", 0), done.stderr
