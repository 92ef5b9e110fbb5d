"""Power cuts of the real server on a real ext4: acknowledged messages are there after each.

    python -m tests.faults.power_cuts [CUTS] [SEED]     (500 by default; about four seconds each)

Needs root, a free loop device, mkfs.ext4 and room for an image in /dev/shm; it says so when one is missing. The server
runs on a file system in an image. A cut is a copy of the image while the server is stopped in the midst of its load:
what it had not synced is in the system's memory and not in the copy. The copy is mounted, which replays ext4's
journal, and the next server starts on it.

With `always` nothing acknowledged may be missing. With `interval` only what was acknowledged within the interval before
the cut may be. What was finished more than a second before the cut must not come again, and what an operator finished
by its id never again once that was answered; a channel is paused as the last answer said.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.kill_runs import CHANNELS, OPTIONS, TOPIC, LostError, Round, drain, resume
from tests.support.processes.engine_process import EngineProcess

IMAGE_BYTES = 384 << 20
POLICIES = ("always", "interval")
INTERVAL_S = 0.05  # of kill_runs.OPTIONS
# The interval is looked at every 100 ms, and a sync takes its time.
SLACK_S = 0.5
SETTLED_S = 1.0


class Disk:
    """An ext4 in an image, mounted on a directory. Raises CalledProcessError when the system refuses."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._image = directory / "image"
        self.mount_point = directory / "mount"
        self.mount_point.mkdir()
        with self._image.open("wb") as image:
            image.truncate(IMAGE_BYTES)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self._mount()

    def _mount(self) -> None:
        self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
        _run("mount", "-t", "ext4", self._device, str(self.mount_point))

    def _unmount(self) -> None:
        _run("umount", str(self.mount_point))
        _run("losetup", "--detach", self._device)

    def cut(self, pid: int) -> float:
        """Stop the process, keep what the device has, end the process, go on from what was kept. Returns when the
        process was stopped, time.monotonic: its clients go on until the device is copied."""
        os.kill(pid, signal.SIGSTOP)
        cut_at_s = time.monotonic()
        kept = self._directory / "kept"
        shutil.copyfile(self._image, kept)
        os.kill(pid, signal.SIGKILL)

        def goes_on() -> None:
            self._unmount()
            kept.replace(self._image)
            self._mount()

        self.go_on = goes_on
        return cut_at_s

    def close(self) -> None:
        self._unmount()


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def missing() -> str:
    """What is missing on this machine, in words; "" for nothing."""
    if os.geteuid() != 0:
        return "root is needed to mount"
    for program in ("mkfs.ext4", "losetup", "mount", "umount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if subprocess.run(["losetup", "--find"], capture_output=True, check=False).returncode:
        return "there is no free loop device"
    return ""


def judge(load: Round, channel: str, bodies: set[bytes], cut_at_s: float, policy: str) -> int:
    """Raises LostError; returns how many acknowledged messages are missing and may be."""
    alien = bodies - load.sent
    if alien:
        raise LostError(f"{channel}: {len(alien)} messages were never published, such as {min(alien)[:40]!r}")
    gone = load.acknowledged - load.finished[channel] - bodies
    allowed_s = cut_at_s - INTERVAL_S - SLACK_S if policy == "interval" else cut_at_s
    lost = {body for body in gone if load.acknowledged_at[body] < allowed_s}
    if lost:
        raise LostError(f"{channel}: {len(lost)} acknowledged messages are lost, such as {min(lost)[:40]!r}")
    by_hand = bodies & load.finished_by_hand[channel]
    if by_hand:
        raise LostError(
            f"{channel}: {len(by_hand)} messages finished by hand come again, such as {min(by_hand)[:40]!r}"
        )
    # What an operator was finishing at the cut has no time: the answer had not come.
    finished_at_s = load.finished_at[channel]
    again = {body for body in bodies if finished_at_s.get(body, cut_at_s) < cut_at_s - SETTLED_S}
    if again:
        raise LostError(f"{channel}: {len(again)} finished messages come again, such as {min(again)[:40]!r}")
    return len(gone)


def run(disk: Disk, cuts: int, seed: int, policy: str) -> None:
    """So many cuts, each going on from what the one before left. Raises LostError."""
    server = EngineProcess(disk.mount_point / "data", options=[*OPTIONS, f"--sync={policy}"])
    server.start()
    try:
        _cut_again_and_again(disk, server, cuts, random.Random(seed), policy)
        server.stop()
    except BaseException:
        server.kill9()  # else the disk is in use
        raise


def _cut_again_and_again(disk: Disk, server: EngineProcess, cuts: int, rng: random.Random, policy: str) -> None:
    for channel in CHANNELS:
        server.http("POST", f"/topic/create?topic={TOPIC}")
        server.http("POST", f"/channel/create?topic={TOPIC}&channel={channel}")
    acknowledged = suffix = 0
    for number in range(cuts):
        load = Round(number, server, rng)
        threads = load.start()
        time.sleep(rng.uniform(0.1, 2.0))
        cut_at_s = disk.cut(server.pid)
        server.kill9()
        for thread in threads:
            thread.join()
        if load.errors:
            raise load.errors[0]
        disk.go_on()
        server.start()
        for channel in CHANNELS:
            resume(server, load, channel)
            bodies = {message.body for message in drain(server, channel)}
            suffix += judge(load, channel, bodies, cut_at_s, policy)
        acknowledged += len(load.acknowledged)
        print(f"{policy} {number + 1}/{cuts}: {acknowledged} acknowledged, {suffix} of the end lost", flush=True)


def main() -> None:
    cuts = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    if complaint := missing():
        sys.exit(f"power cuts can't be tried here: {complaint}")
    print(f"seed {seed}")
    for policy in POLICIES:
        with tempfile.TemporaryDirectory(prefix="penstock-cuts-", dir="/dev/shm") as directory:
            disk = Disk(Path(directory))
            try:
                run(disk, -(-cuts // len(POLICIES)), seed, policy)
            finally:
                disk.close()


if __name__ == "__main__":
    main()
