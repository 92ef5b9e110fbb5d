"""The files of SQLite beside a database."""

import os
from pathlib import Path

from admin_console.vocabulary.private_files import file_defect, set_aside

JOURNALS = ("-wal", "-shm", "-journal")


def set_aside_false_journals(path: Path) -> list[str]:
    """Rename links and directories that stand where journals of the database should be; a sentence for each.

    Raises OSError."""
    sentences = []
    for ending in JOURNALS:
        journal = path.with_name(path.name + ending)
        if kind := file_defect(journal):
            sentences.append(f"{journal} was {kind}. It is now {set_aside(journal).name}.")
    return sentences


def remove_with_journals(path: Path) -> None:
    for ending in ("", *JOURNALS):
        journal = path.with_name(path.name + ending)
        if os.path.lexists(journal):
            journal.unlink()
