"""Bytes on the disk by what they are for: together exactly what `du` counts."""

import os
import subprocess
from pathlib import Path

import pytest

from queue_engine.service.monitoring import disk_usage as module
from queue_engine.service.monitoring.disk_usage import INTERVAL_S, KINDS, SHARE_MAX, DiskUsageWatch, disk_usage
from tests.service.http.server import http_server
from tests.support.engine import Client, settle
from tests.support.exposition import read_exposition


def du(path: Path) -> int:
    """What the system's own du says, in bytes given by the file system."""
    found = subprocess.run(["du", "-s", "-B1", str(path)], check=True, capture_output=True, text=True)
    return int(found.stdout.split()[0])


def fill(path: Path, size: int = 10_000) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)


@pytest.mark.parametrize(
    ("name", "part", "key"),
    [
        ("log/segments/00000000000000000000.log", "kinds", "log_segments"),
        ("log/quarantine/0001", "kinds", "quarantine"),
        ("log/progress/00000001.journal", "kinds", "log_progress"),
        ("log/progress/reserve", "kinds", "reserve"),
        ("log/progress/7/00000000.index", "channels", 7),
        ("log/queues/3/00000000000000000000.queue", "topics", 3),
        ("log/checkpoint", "kinds", "log_other"),
        ("orders.diskqueue.000000.dat", "queues", "orders"),
        ("orders:billing.diskqueue.meta.dat", "queues", "orders:billing"),
        ("orders.diskqueue.000001.dat.bad", "kinds", "set_aside"),
        ("samples/queues/1/00000000000000000000.queue", "kinds", "samples"),
        ("pipeline/lake/part.parquet", "kinds", "pipeline"),
        ("console.sqlite3-wal", "kinds", "console"),
        ("static/plotly.js", "kinds", "console"),
        ("topology.json", "kinds", "topology"),
        ("topology.changes.previous", "kinds", "topology"),
        ("a file of the operator's", "kinds", "other"),
    ],
)
def test_each_file_counts_where_it_belongs(tmp_path: Path, name: str, part: str, key: str | int) -> None:
    before = disk_usage(str(tmp_path)).total
    fill(tmp_path / name)
    usage = disk_usage(str(tmp_path))
    assert getattr(usage, part)[key] >= 10_000
    assert usage.total == du(tmp_path)
    assert part != "kinds" or key in KINDS
    assert usage.total > before


def test_holes_links_and_directories_count_as_du_counts_them(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(50 << 20)
        sparse.write(b"x" * 5_000)
    fill(tmp_path / "log/segments/one", 100_000)
    os.link(tmp_path / "log/segments/one", tmp_path / "log/segments/two")
    (tmp_path / "backup-staging").mkdir()
    os.link(tmp_path / "log/segments/one", tmp_path / "backup-staging/one")
    (tmp_path / "link").symlink_to(tmp_path / "sparse")
    (tmp_path / "loop").symlink_to(tmp_path)
    usage = disk_usage(str(tmp_path))
    assert usage.total == du(tmp_path)
    assert usage.total < 1 << 20


def test_a_directory_of_another_account_costs_only_what_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log/segments/one", 100_000)
    whole = disk_usage(str(tmp_path)).total
    lost = tmp_path / "lost+found"
    lost.mkdir(mode=0)
    directory_bytes = lost.stat().st_blocks * 512
    scandir = os.scandir

    def refusing(path: str) -> "os.PathLike[str] | object":
        # Root may read every directory.
        if path == str(lost):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refusing)
    usage = DiskUsageWatch(str(tmp_path)).usage()
    assert usage is not None
    assert usage.total == whole + directory_bytes


async def test_the_kinds_add_up_to_the_data_directory_and_the_topics_to_theirs(tmp_path: Path) -> None:
    async with http_server(tmp_path, storage="log", mem_queue_size=0) as server:
        for topic, kind in (("orders", "log"), ("mails", "log"), ("old", "diskqueue")):
            await server.request("POST", f"/topic/create?topic={topic}&storage={kind}")
            await server.request("POST", f"/channel/create?topic={topic}&channel=billing")
            for _ in range(3):
                await server.request("POST", f"/mpub?topic={topic}", b"\n".join([b"x" * 500] * 20))
        settle(server.engine)
        consumer = Client(server.engine, "orders", "billing", ready=60)
        # Every second one: the channel's progress has to be written down.
        consumer.finish(*[message.id for message in consumer.sink.received[::2]])
        server.clock.advance(ms=60_000)
        server.engine.tick()
        figures = read_exposition((await server.request("GET", "/metrics")).body)
        whole = du(tmp_path)
    kinds = figures.of("penstock_disk_bytes")
    topics = figures.of("penstock_topic_disk_bytes")
    channels = figures.of("penstock_channel_disk_bytes")
    assert sum(kinds.values()) == whole
    assert len(kinds) == len(KINDS)
    assert sum(topics.values()) == kinds['kind="topics"}'] > 0
    assert kinds['kind="log_segments"}'] >= 2 * 3 * 20 * 500
    assert topics['topic="old"}'] >= 3 * 20 * 500
    assert channels['topic="old",channel="billing"}'] >= 3 * 20 * 500
    assert all(topics[labels.partition(",")[0] + "}"] >= value for labels, value in channels.items())
    # What is kept for topics counts the log again and again.
    assert sum(figures.of("penstock_topic_kept_bytes").values()) > 0


async def test_files_of_deleted_topics_have_a_kind_of_their_own(tmp_path: Path) -> None:
    async with http_server(tmp_path) as server:
        fill(tmp_path / "log/queues/999/00000000000000000000.queue")
        fill(tmp_path / "gone:billing.diskqueue.000000.dat")
        figures = read_exposition((await server.request("GET", "/metrics")).body)
        assert figures['penstock_disk_bytes{kind="deleted"}'] >= 20_000
        assert sum(figures.of("penstock_disk_bytes").values()) == du(tmp_path)


class Walks:
    """A clock, and walks that take as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.takes_s = 0.0
        self.count = 0
        monkeypatch.setattr(module, "disk_usage", self._walk)

    def _walk(self, directory: str) -> module.DiskUsage:
        self.count += 1
        self.now_s += self.takes_s
        return disk_usage(directory)


def test_a_walk_serves_for_ten_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walks = Walks(monkeypatch)
    watch = DiskUsageWatch(str(tmp_path), lambda: walks.now_s)
    first = watch.usage()
    walks.now_s += INTERVAL_S - 1
    assert watch.usage() is first
    walks.now_s += 1
    assert watch.usage() is not first
    assert walks.count == 2


def test_a_walk_that_takes_long_is_made_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    walks = Walks(monkeypatch)
    walks.takes_s = 5.0
    watch = DiskUsageWatch(str(tmp_path), lambda: walks.now_s)
    for _ in range(1_000):
        watch.usage()
        walks.now_s += 1
    assert 2 <= walks.count <= 1_000 * SHARE_MAX / walks.takes_s + 1


def test_a_directory_that_cannot_be_read_has_no_figures(tmp_path: Path) -> None:
    assert DiskUsageWatch(str(tmp_path / "missing")).usage() is None
