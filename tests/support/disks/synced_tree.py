"""What of a real directory is on the disk: libraries that write by themselves are watched by what is synced afterwards.

`SyncedFiles` remembers, at each sync, the bytes of a file or the names of a directory. `power_cut` then makes the tree
that a power cut may leave: what was synced is there; of everything else, names and bytes, a random part: a file that
was not synced is whole, empty, cut anywhere, or has zeros in its second half.
"""

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from random import Random

from queue_engine.storage.disk.files import Files


class SyncedFiles(Files):
    """Real files below `root`. before_step: called before each operation that changes the disk or makes it durable."""

    def __init__(self, root: Path, before_step: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.root = root
        self.before_step = before_step or (lambda: None)
        # path of a directory → its durable names, each with the number of its file
        self._names: dict[Path, dict[str, int]] = {root: {}}
        # number of a file → its durable bytes
        self._bytes: dict[int, bytes] = {}
        # number of a file or directory → what it last had, for those that are removed and may come back
        self._last_bytes: dict[int, bytes] = {}
        self._removed_directories: dict[int, Path] = {}
        # number of a file → a descriptor, so that no later file gets its number
        self._held: dict[int, int] = {}
        weakref.finalize(self, _close, self._held)

    def rename(self, source: str, target: str) -> None:
        self._step()
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._step()
        super().unlink(path)

    def make_directory(self, path: str) -> None:
        self._step()
        super().make_directory(path)

    def sync(self, fd: int) -> None:
        self._step()
        super().sync(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if not path.is_relative_to(self.root):
            return
        if path.is_dir():
            self._names[path] = _names(path)
        else:
            self._bytes[os.fstat(fd).st_ino] = path.read_bytes()

    def _step(self) -> None:
        for path in self.root.rglob("*"):
            if path.is_file():
                number = path.stat().st_ino
                if number not in self._held:
                    self._held[number] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._last_bytes[number] = path.read_bytes()
        self.before_step()

    def power_cut(self, target: Path, random: Random) -> None:
        """Make in `target` what the disk may have if the power is cut now."""
        # Of each state one kind of luck, so that those in which much is lost are not rare.
        self._cut(self.root, target, random, random.choice((0.0, 0.3, 0.7, 1.0)))

    def _cut(self, source: Path, target: Path, random: Random, luck: float) -> None:
        target.mkdir(parents=True)
        durable = self._names.get(source, {})
        now = _names(source) if source.is_dir() else {}
        for name in sorted(durable.keys() | now.keys()):
            if durable.get(name) == now.get(name):
                number = now[name]
            else:
                number = now.get(name, 0) if random.random() < luck else durable.get(name, 0)
            if not number:
                continue
            place = source / name
            if place.is_dir() or (number not in self._last_bytes and not place.is_file()):
                self._cut(place, target / name, random, luck)
                continue
            whole = place.read_bytes() if now.get(name) == number else self._last_bytes[number]
            synced = self._bytes.get(number)
            data = whole if synced == whole else _torn(whole, synced or b"", random, luck)
            (target / name).write_bytes(data)


def _names(directory: Path) -> dict[str, int]:
    return {one.name: one.stat(follow_symlinks=False).st_ino for one in os.scandir(directory)}


def _torn(whole: bytes, synced: bytes, random: Random, luck: float) -> bytes:
    if random.random() < luck:
        return whole
    cut = random.randrange(len(whole) + 1)
    half = len(whole) // 2
    if whole.startswith(b"{") and random.random() < 0.5:
        # JSON, cut between two lines, where it can be read as something smaller.
        lines = whole.splitlines(keepends=True)
        return b"".join(lines[: random.randrange(len(lines) + 1)])
    return random.choice((synced, b"", whole[:cut], whole[:half] + bytes(len(whole) - half)))


def _close(held: dict[int, int]) -> None:
    for descriptor in held.values():
        os.close(descriptor)
