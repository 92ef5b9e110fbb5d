"""Finishes the files that a killed run has left in the work directory, and moves them to where finished files are.

The file of a killed run ends anywhere. Only synced messages are finished on the server, and these end
with a whole line, in a gzip file with a whole member. So the rest is cut off: its messages come again.
"""

import fcntl
import os
import re
import zlib
from collections.abc import Callable
from typing import BinaryIO

from queue_engine.client.tools.topic_file import REVISIONS_MAX, FileLayout, is_at, make_directories, sync_directory

_READ_BYTES = 64 << 10  # a thousand times as much at most, once it is inflated
_GZIP_MAGIC = b"\x1f\x8b"


def finish_left_files(layout: FileLayout, is_ours: Callable[[str], bool]) -> list[str]:
    """Finish the left files of topics for which `is_ours`; returns the paths of the finished files. May raise OSError.

    A file that a program has locked stays, and so does one on a file system without locks: it may be in use.
    """
    # Where both are the same directory, all in it is finished.
    if not layout.work_dir or os.path.samefile(layout.work_dir, layout.output_dir):
        return []
    # A topic's name may contain the text around it: the longest that it can be, and the shortest.
    patterns = (_pattern(layout, "+"), _pattern(layout, "+?"))
    finished = []
    for folder, folders, names in os.walk(layout.work_dir):
        folders[:] = sorted(
            one for one in folders if not os.path.samefile(os.path.join(folder, one), layout.output_dir)
        )
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, layout.work_dir)
            found = (
                match for pattern in patterns if (match := pattern.fullmatch(relative)) and is_ours(match["topic"])
            )
            if (match := next(found, None)) and (target := _finish(path, match, layout.output_dir)):
                finished.append(target)
    return finished


def _pattern(layout: FileLayout, topic_length: str) -> re.Pattern[str]:
    """The names that files of the layout can have, below its directory: of any topic, process, time and revision."""
    of_time = (
        r"[\w:+ ]+" if piece.startswith("%") else re.escape(piece)
        for piece in re.split(r"(%-?.)", layout.datetime_format)
    )
    parts = {
        "<TOPIC>": rf"(?P<topic>[.a-zA-Z0-9_-]{topic_length}(?:#ephemeral)?)",
        "<HOST>": re.escape(layout.host_name),
        "<PID>": r"\d+",
        "<DATETIME>": "".join(of_time),
        "<REV>": r"(?P<rev>(?:-\d{6,7})?)",
    }
    pattern, seen = "", set()
    for piece in re.split(r"(<[A-Z]+>)", layout.filename):
        if piece in parts and piece not in seen:
            pattern += parts[piece]
        elif piece in ("<TOPIC>", "<REV>"):
            pattern += f"(?P={piece[1:-1].lower()})"  # a second one is the same
        else:
            pattern += parts.get(piece, re.escape(piece))
        seen.add(piece)
    return re.compile(pattern + r"(?:\.gz)?", re.DOTALL)


def _finish(path: str, match: re.Match[str], output_dir: str) -> str:
    """Where the file is now; "" when it is in use, or was empty."""
    try:
        file = open(path, "r+b")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        return ""  # another run has just moved it
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return ""
        if not is_at(path, file):
            return ""
        if not (size := _whole_bytes(file)):
            os.unlink(path)
            return ""
        file.truncate(size)
        os.fsync(file.fileno())
        return _move(path, file, match, output_dir)


def _whole_bytes(file: BinaryIO) -> int:
    """How long the part in front is that ends with a whole line, or with a whole member of gzip."""
    is_gzip = file.read(2) == _GZIP_MAGIC
    file.seek(0)
    whole = at = 0
    inflate = zlib.decompressobj(wbits=31)
    while data := file.read(_READ_BYTES):
        if not is_gzip:
            if (newline := data.rfind(b"\n")) >= 0:
                whole = at + newline + 1
            at += len(data)
            continue
        at += len(data)
        while data:
            try:
                inflate.decompress(data)
            except zlib.error:
                return whole
            if not inflate.eof:
                break
            data = inflate.unused_data
            whole = at - len(data)
            inflate = zlib.decompressobj(wbits=31)
    return whole


def _move(path: str, file: BinaryIO, match: re.Match[str], output_dir: str) -> str:
    name, first = match.string, int(match["rev"][1:] or 0)
    for revision in range(first, REVISIONS_MAX):
        rev = f"-{revision:06}" if revision else ""
        target = os.path.join(output_dir, _with_revision(name, match, rev))
        make_directories(os.path.dirname(target))
        try:
            os.link(path, target)  # never over another file, as rename would
        except FileExistsError:
            # With two names the kill came between the link and the removal of the first one. With one name the path
            # is the target, by another way: to remove it would lose the messages.
            if not is_at(target, file) or os.fstat(file.fileno()).st_nlink < 2:
                continue
        sync_directory(os.path.dirname(target))
        os.unlink(path)
        sync_directory(os.path.dirname(path))
        return target
    raise OSError(f"{output_dir} has {REVISIONS_MAX} files of the name {name} already")


def _with_revision(name: str, match: re.Match[str], rev: str) -> str:
    start, end = match.span("rev")
    return name[:start] + rev + name[end:]
