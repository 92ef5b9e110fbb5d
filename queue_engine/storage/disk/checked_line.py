"""A small file's content: one line of JSON and its checksum. People can read it, and damage is noticed.

    {…} LF
    CRC-32C of the line before, without its LF, as 8 hex digits LF

The module that writes such a file documents the line and its version.
"""

from collections.abc import Mapping
from typing import Any

import orjson
from crc32c import crc32c

from queue_engine.vocabulary.errors import NewerFormatError


def encode_line(content: Mapping[str, Any]) -> bytes:
    """The file's bytes."""
    line = orjson.dumps(content)
    return b"%s\n%08x\n" % (line, crc32c(line))


def decode_versioned(data: bytes, path: str, version: int) -> dict[str, Any] | None:
    """The line of the file at `path`; None when it is damaged or has no version. Raises NewerFormatError when its
    version is beyond `version`."""
    content = decode_line(data)
    if content is None or not isinstance(found := content.get("version"), int):
        return None
    if found > version:
        raise NewerFormatError(path, found, version)
    return content


def decode_line(data: bytes) -> dict[str, Any] | None:
    """The line's content; None when the file is damaged."""
    line, _, check = data.partition(b"\n")
    if check != b"%08x\n" % crc32c(line):
        return None
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return content if isinstance(content, dict) else None
