"""Notes that the first start after an upgrade prints, once: a file in the data directory has their names."""

import logging
from collections.abc import Mapping
from pathlib import Path

from admin_console.vocabulary.private_files import read_private_file, write_private_file

logger = logging.getLogger(__name__)

FILE_NAME = "upgrade-notes"
_BYTES_MAX = 64 << 10

HTTP_TOKEN = "http-token-covers-changes"  # noqa: S105 - the note's name
TEXTS: Mapping[str, str] = {
    HTTP_TOKEN: (
        "Upgrade: --http-token now covers publishing and every change over HTTP, too, and not only reading bodies. "
        "Clients that publish or act over HTTP must send Authorization: Bearer TOKEN. /ping, /info, /stats and "
        "/metrics stay open; NSQ clients on the TCP port need no token, as before."
    ),
}


def unprinted(data_path: Path, names: list[str], *, is_new: bool) -> list[str]:
    """The texts of those notes that no start on this data directory has printed; marks them as printed.

    is_new: the directory was empty, so there is no upgrade. On a disk that refuses the file, notes are printed again.
    """
    path = data_path / FILE_NAME
    try:
        printed = read_private_file(path, _BYTES_MAX).decode("ascii", "replace").split()
    except OSError:
        printed = []
    new = [name for name in names if name not in printed]
    if new:
        try:
            write_private_file(path, "".join(f"{name}\n" for name in [*printed, *new]))
        except OSError as exc:
            logger.warning("%s can't be written: %s", path, exc)
    return [] if is_new else [TEXTS[name] for name in new]
