"""The file beside the database that names the newest audit row and its hash. It shows when rows at the end are removed.

    {"version": 1, "id": 1234, "hash": "9f2c…", "at_ms": 1700000000000} LF

A copy of the file on another machine also shows that the whole list was written anew.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from admin_console.vocabulary.private_files import read_private_file, write_private_file

NAME = "audit-head"
_VERSION = 1
_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Head:
    """The newest row at some moment."""

    id: int
    hash: str


class HeadFileError(Exception):
    """The file can't be understood; the text is a sentence with its path."""


def path_of(data_path: Path) -> Path:
    return data_path / NAME


def write_head(path: Path, head: Head, at_ms: int) -> None:
    """Replace the file, whole or not at all, readable by its owner only. Raises OSError."""
    document = {"version": _VERSION, "id": head.id, "hash": head.hash, "at_ms": at_ms}
    write_private_file(path, json.dumps(document) + "\n")


def read_head(path: Path) -> Head | None:
    """The head in the file; None without a file. Raises HeadFileError."""
    try:
        document = json.loads(read_private_file(path, _BYTES_MAX))
        if document["version"] != _VERSION:
            raise HeadFileError(f"{path} is of version {document['version']}; this Penstock reads {_VERSION}.")
        head = Head(document["id"], document["hash"])
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise HeadFileError(f"{path} can't be read: {exc.strerror or exc}.") from exc
    except (ValueError, KeyError, TypeError, RecursionError) as exc:
        raise HeadFileError(f"{path} is damaged: it does not name a row and its hash.") from exc
    if type(head.id) is not int or not isinstance(head.hash, str) or not re.fullmatch("[0-9a-f]{64}", head.hash):
        raise HeadFileError(f"{path} is damaged: it does not name a row and its hash.")
    return head
