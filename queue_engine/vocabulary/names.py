"""Which names a topic or channel may have: NSQ's rule, less the two that mean a directory."""

import re

NAME_LENGTH_MAX = 64
EPHEMERAL_SUFFIX = "#ephemeral"
# The server writes its own stats here; clients can read it like a topic, and nothing else.
SAMPLES_TOPIC = "_penstock.samples"
# A topic of the log is archived while it has a pipeline cursor of this name.
ARCHIVE_CURSOR = "archive"

_NAME = re.compile(r"[.a-zA-Z0-9_-]+(#ephemeral)?")


def is_valid_name(name: str) -> bool:
    """Whether a topic or channel may be called `name`.

    1 to 64 characters of `.a-zA-Z0-9_-`, with `#ephemeral` behind them where it is wanted (counted in
    the 64). "." and ".." are refused though nsqd takes them: disk queues are named after their topics.
    """
    return 0 < len(name) <= NAME_LENGTH_MAX and _NAME.fullmatch(name) is not None and name not in (".", "..")


def is_ephemeral(name: str) -> bool:
    """Whether `name` is of a topic or channel that lives in memory only and goes with its last client."""
    return name.endswith(EPHEMERAL_SUFFIX)


def is_reserved(name: str) -> bool:
    """Whether `name` is the server's own: clients can't publish or subscribe to it, create or delete it."""
    return name == SAMPLES_TOPIC
