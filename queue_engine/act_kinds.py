"""Which act and which read each kind of topic can do, and why another kind can't: one table.

The engine's refusals, the console's disabled buttons and the table in this folder's README are made from it. The names
are those of the acts in `admin_console/gateway/act_table.py`, of reads, and of `publish_keyed`, a publish with a key.

A topic has storage kind `log` or `diskqueue`. A topic or channel named `#ephemeral` has one too, and can do what its
kind can, but for what its own column says.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.delivery.topic import Topic
from queue_engine.log_store.log_topic_store import KIND as LOG_KIND
from queue_engine.vocabulary.errors import InvalidStorageError
from queue_engine.vocabulary.names import is_ephemeral


@dataclass(frozen=True, slots=True)
class ActKinds:
    """One act or read. log, diskqueue: "" where topics of that storage kind can do it, else the reason why not, the
    rest of a sentence that begins "topic T has storage kind K: ". ephemeral: the same of what is named #ephemeral; the
    sentence begins "T/C is ephemeral: "."""

    name: str
    log: str = ""
    diskqueue: str = ""
    ephemeral: str = ""


_NO_OFFSETS = "only the log can be read and rewound"
_NO_KEYS = "only the log keeps keys"
_NO_CURSORS = "only topics of the log have pipeline cursors, and can be archived"
_NO_TRASH = "its files are nsqd's own, and the trash has no copy of them"
_READ_ONCE = "only the log can be searched; the files of a disk queue are read once, from front to back"

_NO_QUARANTINE = "a disk queue has nsqd's files, which can't say that a message is set aside"
_NOT_KEPT = "it keeps nothing, so nothing can be set aside"

_TABLE = (
    ActKinds("create_topic"),
    ActKinds("create_channel"),
    ActKinds("publish"),
    ActKinds("publish_keyed", diskqueue=_NO_KEYS),
    ActKinds("write_batch", diskqueue=_NO_KEYS),
    ActKinds("pause_topic"),
    ActKinds("unpause_topic"),
    ActKinds("pause_channel"),
    ActKinds("unpause_channel"),
    ActKinds("retry_topic"),
    ActKinds("retry_channel"),
    ActKinds("requeue_channel"),
    ActKinds("release_deferred"),
    ActKinds("empty_topic"),
    ActKinds("empty_channel"),
    ActKinds("delete_topic"),
    ActKinds("delete_channel"),
    ActKinds("rewind_channel", diskqueue=_NO_OFFSETS),
    ActKinds("read_messages", diskqueue=_NO_OFFSETS),
    ActKinds("find_key", diskqueue=_NO_KEYS),
    ActKinds("lease_messages", diskqueue=_NO_OFFSETS),
    ActKinds("archive_on", diskqueue=_NO_CURSORS),
    ActKinds("archive_off", diskqueue=_NO_CURSORS),
    ActKinds("archive_again", diskqueue=_NO_CURSORS),
    ActKinds("create_cursor", diskqueue=_NO_CURSORS),
    ActKinds("move_cursor", diskqueue=_NO_CURSORS),
    ActKinds("delete_cursor", diskqueue=_NO_CURSORS),
    ActKinds("restore_trash", diskqueue=_NO_TRASH, ephemeral="the trash keeps nothing of it"),
    ActKinds("delete_trash", diskqueue=_NO_TRASH, ephemeral="the trash keeps nothing of it"),
    # Single messages of a channel.
    ActKinds("list_messages"),
    ActKinds("search_messages", diskqueue=_READ_ONCE),
    ActKinds("finish_messages"),
    ActKinds("requeue_messages"),
    ActKinds("release_messages"),
    ActKinds("publish_again"),
    # Quarantine.
    ActKinds("set_max_attempts", diskqueue=_NO_QUARANTINE, ephemeral=_NOT_KEPT),
    ActKinds("quarantine_messages", diskqueue=_NO_QUARANTINE, ephemeral=_NOT_KEPT),
    ActKinds("redrive_channel", diskqueue=_NO_QUARANTINE, ephemeral=_NOT_KEPT),
    ActKinds("redrive_messages", diskqueue=_NO_QUARANTINE, ephemeral=_NOT_KEPT),
    ActKinds("cancel_redrive", diskqueue=_NO_QUARANTINE, ephemeral=_NOT_KEPT),
)
ACT_KINDS: Mapping[str, ActKinds] = {row.name: row for row in _TABLE}


def why_not(act: str, kind: str, *names: str) -> str:
    """Why `act` can't be done to a topic of storage kind `kind`, "" where it can. names: the topic's, and the channel's
    where the act is on one."""
    row = ACT_KINDS[act]
    reason = row.log if kind == LOG_KIND else row.diskqueue
    if reason:
        return f"topic {names[0]} has storage kind {kind}: {reason}"
    if row.ephemeral and any(map(is_ephemeral, names)):
        return f"{'/'.join(names)} is ephemeral: {row.ephemeral}"
    return ""


def check(act: str, topic: Topic, channel: str = "") -> None:
    """Raises InvalidStorageError where the topic, or its channel, can't do the act."""
    reason = why_not(act, topic.store.kind, topic.name, *([channel] if channel else []))
    if reason:
        raise InvalidStorageError(reason)
