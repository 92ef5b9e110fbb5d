"""The addresses that an admin chose while the console ran: they outlive its restart.

    cluster.json, of a named cluster cluster.NAME.json, mode 0600: one checked line (storage/disk/checked_line.py)

    {"version": 1, "options": ADDRESSES, "chosen": ADDRESSES}
    ADDRESSES   {"lookupds": [text…], "nsqds": [text…]}, each text as `HttpAddress` reads it

`options` has the addresses of the options when `chosen` was written. Options that name others later replace `chosen`:
an admin who edits the service's file expects its lines to hold. To change the format: a new key that an older version
may ignore keeps the version; anything else raises it, and older versions then refuse the file with a sentence.
"""

import logging
import os
from pathlib import Path

from admin_console.cluster.calls.options import Addresses
from admin_console.vocabulary.current_cluster import file_of
from queue_engine.storage.disk.checked_line import decode_versioned, encode_line
from queue_engine.storage.disk.files import Files, NameNotSyncedError
from queue_engine.vocabulary.errors import StorageError

VERSION = 1
NAME = "cluster.json"
_BYTES_MAX = 2 << 20  # the most addresses of each kind, at their greatest length, twice

logger = logging.getLogger(__name__)


class ChosenAddresses:
    """The file of one data directory and cluster. options: the addresses of the options as they are. cluster: its name,
    "" for the unnamed one."""

    def __init__(
        self, directory: str | Path, options: Addresses, files: Files | None = None, *, cluster: str = ""
    ) -> None:
        self._path = os.path.join(directory, file_of(NAME, cluster))
        self._options = options
        self._files = files or Files()

    def read(self) -> Addresses:
        """The addresses that count: the chosen ones, or those of the options. A damaged file counts as none, with a
        line in the log. Raises StorageError for one of a newer version, or that can't be read."""
        try:
            data = self._files.read_whole(self._path, _BYTES_MAX)
        except OSError as exc:
            raise StorageError(f"{self._path} can't be read: {exc}") from exc
        if data is None:
            return self._options
        content = decode_versioned(data, self._path, VERSION)
        try:
            if content is None:
                raise ValueError("its checksum does not fit")
            then, chosen = (
                Addresses.parse(content[key]["lookupds"], content[key]["nsqds"]) for key in ("options", "chosen")
            )
        except (ValueError, TypeError, KeyError) as exc:
            logger.warning("%s is damaged (%s): the addresses of the options count", self._path, exc)
            return self._options
        if then != self._options:
            logger.info("the options name other nodes than when %s was written: the options count", self._path)
            return self._options
        return chosen

    def write(self, chosen: Addresses) -> None:
        """Durable when this returns. Raises StorageError; then the file is as it was, or the new one counts until a
        power cut."""
        content = {"version": VERSION, "options": _texts(self._options), "chosen": _texts(chosen)}
        try:
            self._files.replace(self._path, encode_line(content))
        except NameNotSyncedError as exc:
            raise StorageError(f"{self._path} was replaced, and syncing its directory failed: {exc}") from exc
        except OSError as exc:
            raise StorageError(f"{self._path} can't be written: {exc}. The addresses stay as they were") from exc


def _texts(addresses: Addresses) -> dict[str, list[str]]:
    return {"lookupds": [str(one) for one in addresses.lookupds], "nsqds": [str(one) for one in addresses.nsqds]}
