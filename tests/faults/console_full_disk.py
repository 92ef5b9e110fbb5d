"""The console on a disk that is really full: a small file system, filled to the last byte.

    python -m tests.faults.console_full_disk [BYTES_FREE ...]           (default: 0 4096 65536 944000)

Needs the right to mount, or user namespaces (`unshare`). For each number of bytes left free: the server starts, a
person logs in, pauses, resumes, empties and deletes, and reads the audit list; once there is room again the rows are
on the disk, and their chain of hashes holds. The log lies on another disk: `tests/engine/test_full_disk.py` is about
the engine without room.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ROOT, ServerProcess
from tests.support.waiting import wait_for

DEFAULT_BYTES_FREE = (0, 4_096, 65_536, 944_000)
DISK_BYTES = 24 << 20
WAIT_S = 60.0
# Set in the child that may mount.
INSIDE = "TEST_INSIDE_NAMESPACE"

ACTS = (
    ("/topics/orders/~pause/", {}),
    ("/topics/orders/~unpause/", {}),
    ("/topics/orders/billing/~empty/", {"typed_name": "orders/billing"}),
    ("/topics/orders/billing/~delete/", {"typed_name": "orders/billing"}),
)


def main(bytes_free: list[int]) -> int:
    """A line for each; the exit status."""
    if INSIDE not in os.environ:
        command = ["unshare", "--mount", "--map-root-user", sys.executable, "-m", __spec__.name, *map(str, bytes_free)]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, check=False).returncode
    for left in bytes_free:
        with tempfile.TemporaryDirectory() as directory:
            print(f"{left:,} bytes free: {tried(Path(directory), left)}")
    return 0


def tried(directory: Path, left: int) -> str:
    """Returns the observations as sentences. Raises AssertionError when a person could not act."""
    disk, roomy = directory / "disk", directory / "roomy"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(disk)], check=True)
    data_path = disk / "data"
    data_path.mkdir()
    for name in ("log", "samples"):
        (roomy / name).mkdir(parents=True)
        (data_path / name).symlink_to(roomy / name)
    server = ServerProcess(data_path, options=["--no-pipeline"])
    try:
        with server:
            server.http("POST", "/pub?topic=orders", b"x" * 1000)
            server.http("POST", "/channel/create?topic=orders&channel=billing")
        filler = disk / "filler"
        fill(filler, left)
        server.start()
        place = acted(server)
        assert server.http("GET", "/livez") == b"OK"
        filler.unlink()
        wait_for("the rows on the disk", lambda: row_count(data_path) == 1 + 2 * len(ACTS), timeout_s=WAIT_S)
        assert "Traceback" not in server.log
        server.stop()
        command = [sys.executable, "manage.py", "audit", "verify", f"--data-path={data_path}"]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        return f"logged in and acted; {place}; {row_count(data_path)} audit rows once there was room"
    except BaseException:
        print(server.log)
        raise
    finally:
        server.kill9()
        subprocess.run(["umount", str(disk)], check=False)


def fill(filler: Path, left: int) -> None:
    """Take what the disk has, but for `left` bytes."""
    space = os.statvfs(filler.parent)
    size = space.f_bavail * space.f_frsize - left
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def acted(server: ServerProcess) -> str:
    console = ConsoleClient(server.console_port)
    console.log_in()
    for path, fields in ACTS:
        assert console.post(path, fields, form_path=path).status == 302, path
    page = console.get("/audit/")
    console.close()
    assert page.status == 200
    return "rows waited in memory" if "in memory until the disk takes" in page.text else "rows were written at once"


def row_count(data_path: Path) -> int:
    """Rows of the person's acts and log-in."""
    with closing(sqlite3.connect(f"file:{data_path / 'console.sqlite3'}?mode=ro", uri=True)) as database:
        (count,) = database.execute("SELECT count(*) FROM admin_console_auditrow WHERE via = 'console'").fetchone()
        return int(count)


if __name__ == "__main__":
    sys.exit(main([int(text) for text in sys.argv[1:]] or list(DEFAULT_BYTES_FREE)))
