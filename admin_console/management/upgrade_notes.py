"""Notes that the first start after an upgrade prints, once: a file in the data directory has their names."""

import logging
from collections.abc import Mapping
from pathlib import Path

from admin_console.vocabulary.private_files import read_private_file, write_private_file

logger = logging.getLogger(__name__)

FILE_NAME = "upgrade-notes"
_BYTES_MAX = 64 << 10

HTTP_TOKEN = "http-token-covers-changes"  # noqa: S105 - the note's name
AUDIT_SIZE = "audit-list-has-a-limit"
TEXTS: Mapping[str, str] = {
    HTTP_TOKEN: (
        "Upgrade: --http-token now covers publishing and every change over HTTP, too, and not only reading bodies. "
        "Clients that publish or act over HTTP must send Authorization: Bearer TOKEN. /ping, /info, /stats and "
        "/metrics stay open; NSQ clients on the TCP port need no token, as before."
    ),
    AUDIT_SIZE: (
        "Upgrade: the audit list now takes at most --audit-retention-bytes, and this one is larger. Its oldest rows "
        "are removed once the list is checked, a second for 1,000 rows. To keep all of them, start with "
        "--audit-retention-bytes 0."
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
