"""The names of the files of a table's log."""

import posixpath
import re

LOG = "_delta_log"
LAST_CHECKPOINT = "_last_checkpoint"

COMMIT = re.compile(r"(\d{20})\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\..+)?\.(?:parquet|json)")


def commit_path(table: str, version: int) -> str:
    """The path of a commit."""
    return posixpath.join(table, LOG, f"{version:020d}.json")


def checkpoint_path(table: str, version: int) -> str:
    """The path of a checkpoint as delta-rs writes it: one file."""
    return posixpath.join(table, LOG, f"{version:020d}.checkpoint.parquet")
