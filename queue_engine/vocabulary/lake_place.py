"""The place of the archive's tables (--lake): a directory, or the URL of an object store."""

import os


def absolute_lake(place: str) -> str:
    """A value of --lake for a process that begins in another directory: a path from the root on; a URL, and "", as they
    are."""
    return place if not place or "://" in place else os.path.abspath(place)
