"""Symbolic links in place of the data directory's files are refused; the data path and its directories may be links."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from queue_engine.storage.disk.no_follow import LinkRefusedError, open_no_follow, read_no_follow, refuse_link
from queue_engine.vocabulary.errors import PenstockError
from tests.support.nsq_socket import NsqSocket
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

OPTIONS = {"samples_interval_ms": 1_000, "mem_queue_size": 2}

# What is made of the log, and the server's samples: a link in their place is put away, and the server starts.
MADE_ANEW = (
    "log/queues/",
    "log/keys/",
    "log/checkpoint",
    "samples/",
    "log/progress/reserve",
    "topology.json.previous",
    "topology.changes.previous",
)
# What the first act opens, and a start does not.
OPENED_LATER = ("api-audit.log",)


def use(engine: RunningEngine) -> None:
    """Leave a file of every kind."""
    engine.http("POST", "/topic/create?topic=overflowing&storage=diskqueue")
    engine.http("POST", "/channel/create?topic=overflowing&channel=c")
    for number in range(10):
        for topic in ("orders", "overflowing"):
            key = "&key=k" if topic == "orders" and number == 9 else ""
            engine.http("POST", f"/pub?topic={topic}{key}", b"message %d" % number)
    engine.http("POST", "/channel/create?topic=orders&channel=c")
    engine.http("POST", "/cursor/create?topic=orders&cursor=archive")
    engine.http("POST", "/log/lease?topic=orders&offset=0&ttl_ms=600000")
    engine.http("POST", f"/log/write?topic=orders&batch_key={'1' * 32}", b"\0\0\0\1\0\0\0\0\0\1k")
    with NsqSocket(engine.tcp_port) as client:
        client.subscribe("orders", "c", rdy=1)
        client.finish(client.read_message())
        client.read_message()


@pytest.fixture(scope="module")
def used_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_path = tmp_path_factory.mktemp("used") / "data"
    with RunningEngine(data_path, storage="log", **OPTIONS) as engine:
        use(engine)
        wait_for("a sample", lambda: list((data_path / "samples" / "segments").glob("*")))
    return data_path


@pytest.fixture
def data_path(used_directory: Path, tmp_path: Path) -> Path:
    subprocess.run(["cp", "-a", str(used_directory), str(tmp_path / "data")], check=True)
    return tmp_path / "data"


def files_of(data_path: Path) -> Iterator[Path]:
    yield from sorted(path for path in data_path.rglob("*") if path.is_file() and not path.is_symlink())


def test_link_in_place_of_any_file_is_named_and_its_target_untouched(data_path: Path, tmp_path: Path) -> None:
    names = [str(path.relative_to(data_path)) for path in files_of(data_path)]
    kinds = {Path(name).suffix for name in names}
    assert {".log", ".queue", ".keys", ".journal", ".json", ".dat", ".changes"} <= kinds, "a file of each kind"
    for name in names:
        copy, target = tmp_path / "copy", tmp_path / "elsewhere"
        subprocess.run(["cp", "-a", str(data_path), str(copy)], check=True)
        (copy / name).rename(target)
        (copy / name).symlink_to(target)
        before = (target.read_bytes(), target.stat().st_mtime_ns)
        complaint = ""
        try:
            with RunningEngine(copy, storage="log", **OPTIONS) as engine:
                for topic in ("orders", "overflowing"):
                    engine.http("POST", f"/pub?topic={topic}", b"one more")
        except (PenstockError, OSError) as exc:
            complaint = str(exc)
        assert (target.read_bytes(), target.stat().st_mtime_ns) == before, name
        if name.startswith((*MADE_ANEW, *OPENED_LATER)):
            assert complaint == "", name
        else:
            assert f"{copy / name} is a symbolic link, which Penstock does not follow" in complaint, name
        subprocess.run(["rm", "-r", str(copy), str(target)], check=True)


def test_data_path_and_its_directories_may_be_links(data_path: Path, tmp_path: Path) -> None:
    other_disk = tmp_path / "other-disk"
    other_disk.mkdir()
    for name in ("log", "samples"):
        (data_path / name).rename(other_disk / name)
        (data_path / name).symlink_to(other_disk / name)
    (tmp_path / "link").symlink_to(data_path)
    with RunningEngine(tmp_path / "link", storage="log", **OPTIONS) as engine:
        engine.http("POST", "/pub?topic=orders", b"one more")
        # Eleven and one more; the first is finished.
        assert engine.channel_stats("orders", "c")["depth"] == 11
        assert engine.http("GET", "/ping") == b"OK"


def test_link_is_refused_for_reading_writing_and_making(tmp_path: Path) -> None:
    target, link, dangling = tmp_path / "target", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"not ours")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (link, dangling):
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
            with pytest.raises(LinkRefusedError, match=f"^{path} is a symbolic link, which Penstock does not follow"):
                open_no_follow(path, flags)
        with pytest.raises(LinkRefusedError):
            read_no_follow(path)
        with pytest.raises(LinkRefusedError):
            refuse_link(path)
    assert target.read_bytes() == b"not ours"
    assert not (tmp_path / "nowhere").exists()
    assert read_no_follow(target) == b"not ours"
    (tmp_path / "directory").symlink_to(tmp_path)
    os.close(open_no_follow(tmp_path / "directory", os.O_RDONLY | os.O_DIRECTORY))
