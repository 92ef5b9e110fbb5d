"""The worker beside the server, for real: started when there is work, alone on its lake, gone with its server."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from queue_engine.lake.directory.lake_lock import holder_of
from queue_engine.lake.job.requests import has_requests, put_request
from queue_engine.lake.job.state import read_states
from queue_engine.lake.worker.log_file import BYTES_MAX
from queue_engine.lake.worker.state import read_worker_state
from queue_engine.lake.worker.worker import KILL_AFTER_S, OOM_SCORE_ADDED
from tests.support.processes.engine_api import ANSWER_TIMEOUT_S
from tests.support.processes.live_processes import live_process, live_processes
from tests.support.processes.memory import is_java, session_pids
from tests.support.processes.penstock_command import TIMEOUT_S
from tests.support.processes.server import ADMIN_PASSWORD, ROOT, ServerProcess
from tests.support.waiting import wait_for

GONE_WITHIN_S = 30.0  # five are promised, and a machine may stall
START_TIMEOUT_S = 400.0  # beside whatever else this machine does
NICE = 2
TOKEN = "not-for-everybody-to-read"
DJANGO_SECRET = "nor-is-this"

pytestmark = [pytest.mark.slow(reason="runs the worker and its server"), pytest.mark.spark]


def group(leader_pid: int) -> list[int]:
    """The processes of a group that have not ended."""
    return [one.pid for one in live_processes() if one.group == leader_pid]


def session(leader_pid: int) -> list[int]:
    """All that a worker has started: Spark's Python processes are in groups of their own."""
    return session_pids(leader_pid)


def archive_a_message(server: ServerProcess) -> None:
    """Publish one that is archived, which the worker can do only with the token, and wait until it is."""
    for path in ("/topic/create?topic=orders", "/cursor/create?topic=orders&cursor=archive", "/pub?topic=orders"):
        headers = {"Authorization": f"Bearer {TOKEN}"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.http_port}{path}", data=b"first", method="POST", headers=headers
        )
        urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S).close()

    def is_archived() -> bool:
        depths = [cursor["depth"] for cursor in server.topic_stats("orders")["cursors"]]
        return depths == [0]

    wait_for("the message in the archive", is_archived, timeout_s=START_TIMEOUT_S, every_s=0.1)


def java_of(worker_pid: int) -> int:
    return next(pid for pid in group(worker_pid) if is_java(pid))


def oom_score_added(pid: int) -> int:
    """What the kernel adds to the process's memory when it chooses which one to end, of 1000."""
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


def autogroup_nice(pid: int) -> int | None:
    """The priority of a process's session, beside which its own counts only within; None where sessions have none."""
    try:
        words = Path(f"/proc/{pid}/autogroup").read_text().split()
    except OSError:
        return None
    # Nothing is told of a process whose control group has a share of its own.
    return int(words[-1]) if words else None


def ready_worker(lake: Path, *, other_than: int = 0) -> int:
    """The pid of the worker that holds the lake, once it is ready."""

    def look() -> int:
        holder, said = holder_of(str(lake)), read_worker_state(lake)
        is_ready = holder and said and said.pid == holder.pid != other_than and said.state == "ready"
        return holder.pid if is_ready and holder else 0

    return wait_for("a worker that is ready", look, timeout_s=START_TIMEOUT_S, every_s=0.1)


def wait_until_gone(worker_pid: int) -> None:
    wait_for("its processes to be gone", lambda: not group(worker_pid), timeout_s=GONE_WITHIN_S, every_s=0.05)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "data" / "pipeline"


@pytest.mark.timeout(1_500)
def test_one_worker_is_started_for_a_request_again_when_killed_and_ended_by_sigterm(tmp_path: Path, lake: Path) -> None:
    classes = lake / "scratch" / "classes"
    classes.mkdir(parents=True)
    (classes / "of-an-earlier-version.jsa").write_bytes(b"Java's classes")
    environment = {
        "PENSTOCK_HTTP_TOKEN": TOKEN,
        "DJANGO_SECRET_KEY": DJANGO_SECRET,
        "PENSTOCK_WORKER_MEMORY_BYTES": str(768 << 20),
    }
    options = ["--storage=log", f"--worker-nice={NICE}"]
    with ServerProcess(tmp_path / "data", options=options, environment=environment) as server:
        put_request(lake, "start_job", job="compact")
        first = ready_worker(lake)
        assert not classes.exists(), "no version uses it any more"
        wait_for("the request to be taken", lambda: not has_requests(lake), timeout_s=START_TIMEOUT_S)
        assert os.getpriority(os.PRIO_PROCESS, first) == NICE
        assert os.getpriority(os.PRIO_PROCESS, java_of(first)) == NICE
        assert autogroup_nice(java_of(first)) in (NICE, None)
        assert autogroup_nice(server.pid) in (0, None)
        assert [oom_score_added(pid) for pid in (first, java_of(first))] == [OOM_SCORE_ADDED] * 2
        assert oom_score_added(server.pid) < OOM_SCORE_ADDED
        assert b"-Xmx768m" in Path(f"/proc/{java_of(first)}/cmdline").read_bytes()

        archive_a_message(server)
        pids = session(first)
        assert len(pids) > len(group(first)), "Spark's Python processes run, too"
        for pid in pids:
            for name in ("cmdline", "environ"):
                try:
                    shown = Path(f"/proc/{pid}/{name}").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    continue  # Spark ended it meanwhile
                assert not [text for text in (TOKEN, DJANGO_SECRET, ADMIN_PASSWORD) if text.encode() in shown]

        second = subprocess.run(
            [sys.executable, "-m", "queue_engine.lake.worker.worker", f"--data-path={tmp_path / 'data'}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert second.returncode == 3
        assert f"is held by pid {first} on" in second.stderr

        os.kill(first, signal.SIGKILL)
        again = ready_worker(lake, other_than=first)
        wait_until_gone(first)
        assert "the pipeline's worker ended: it was ended by SIGKILL; next start in 1 s" in server.log
        java = java_of(again)
        asked_s = time.monotonic()
        server.stop()
        wait_until_gone(again)
        wait_for("Java to be gone", lambda: not live_process(java), timeout_s=GONE_WITHIN_S)
        took_s = time.monotonic() - asked_s
    assert holder_of(str(lake)) is None
    said = read_worker_state(lake)
    assert said is not None
    # A machine that stalled may have had it killed.
    assert said.state == "ended" or took_s > KILL_AFTER_S, "it ended in order, and was not killed"
    if said.state == "ended":
        assert {state.state for state in read_states(lake).by_name.values()} <= {"waiting", "failed"}
    assert "Traceback" not in server.log


def test_no_pipeline_means_no_worker(tmp_path: Path, lake: Path) -> None:
    put_request(lake, "start_job", job="compact")
    with ServerProcess(tmp_path / "data", options=["--no-pipeline"]) as server:
        look_s = started_s(server) + 6
        wait_for("three looks for work, had there been any", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > look_s)
        assert holder_of(str(lake)) is None
        assert has_requests(lake)


def started_s(server: ServerProcess) -> float:
    """When the server's process was started, by CLOCK_BOOTTIME."""
    ticks = int(Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_its_log_stays_small_and_the_last_one_is_kept(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from queue_engine.lake.worker.log_file import WorkerLogFile\n"
        "log = WorkerLogFile(Path(sys.argv[1]))\n"
        "for _ in range(6): os.write(2, b'x' * 999_999 + b'\\n')\n"
        "log.keep_small(); print('after', flush=True)"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True, timeout=TIMEOUT_S)
    assert (tmp_path / "worker.log").read_text() == "after\n"
    assert BYTES_MAX < (tmp_path / "worker.log.1").stat().st_size <= 6_000_000
