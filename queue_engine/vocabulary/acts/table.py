"""Every act, once: one row each, from which all else is made.

Permissions of roles and tokens, the paths over HTTP, refusals and disabled buttons for a kind of topic, when a question
is out of date, and the tables in this folder's README come from here. The engine binds the names to methods
(`queue_engine/engine/engine_calls.py`), the console to sentences (`admin_console/gateway/act_sentences.py`). An act of
the pipeline's worker, of the console itself or of an nsqlookupd has a row, too.
"""

from collections.abc import Mapping

from queue_engine.vocabulary.acts.act import (
    IN_CHANNEL,
    OF_CHANNEL,
    OF_MESSAGES,
    OF_TOPIC,
    Act,
    Kinds,
    OverHttp,
    State,
)
from queue_engine.vocabulary.acts.parameters import (
    CURSOR_ANEW,
    CURSOR_LAKE,
    CURSOR_NUMBER,
    CURSOR_OFFSET,
    CURSOR_START_PLACE,
    EXACT,
    EXPECTED,
    KEEP_ATTEMPTS,
    KEEP_FINISHED,
    MAX_ATTEMPTS,
    PAUSE_FOR,
    PAUSE_UNTIL,
    PUBLISH_TO,
    RAMP,
    REASON,
    REDRIVE_RATE,
    SEEK_PLACE,
    START_PLACE,
    STORAGE,
    TRASH_ID,
    TRASH_SWAP,
)
from queue_engine.vocabulary.errors import InvalidStorageError
from queue_engine.vocabulary.grants import Role
from queue_engine.vocabulary.names import is_ephemeral
from queue_engine.vocabulary.permission import Permission

# Which topics can do it.
_BY_OFFSET = Kinds(diskqueue="only the log can be read and rewound", nsqd="keeps no past messages")
_KEYED = Kinds(diskqueue="only the log keeps keys", nsqd="has no keys")
_CURSORS = Kinds(
    diskqueue="only topics of the log have pipeline cursors, and can be archived", nsqd="has no pipeline cursors"
)
_TRASH = Kinds(
    diskqueue="its files are nsqd's own, and the trash has no copy of them",
    ephemeral="the trash keeps nothing of it",
    nsqd="has no trash",
)
_SEARCH = Kinds(
    diskqueue="only the log can be searched; the files of a disk queue are read once, from front to back",
    nsqd="shows no messages",
)
_QUARANTINE = Kinds(
    diskqueue="a disk queue has nsqd's files, which can't say that a message is set aside",
    ephemeral="it keeps nothing, so nothing can be set aside",
    nsqd="has no quarantine",
)
_FENCES = Kinds(nsqd="stops no topic or channel after a fault")
_MOVED = Kinds(nsqd="can't requeue or release messages by hand")
_LISTED = Kinds(nsqd="shows no messages")

_PAUSE = (REASON, PAUSE_FOR, PAUSE_UNTIL)

# The harm that the holder of a token can do.
_RESTORABLE = "takes messages from consumers; the trash restores them until it gives them up"
_STOPS = "consumers wait until it is resumed; the log keeps their messages"
_AGAIN = "messages are delivered again; bounded by the attempts of each"
OWN_READERS = "the log keeps messages for it, within limits; its own alone, others' and the archive need administer"

_TABLE = (
    # Topics.
    Act(
        "create_topic",
        Role.OPERATOR,
        http=OverHttp(
            "/topic/create",
            "Create a topic; one that exists stays as it is.",
            "one of --max-topics",
            parameters=(STORAGE,),
        ),
    ),
    Act(
        "delete_topic",
        Role.ADMIN,
        unchanged=(State.TOPIC, *OF_TOPIC, State.COUNTS),
        undo="restore_trash",
        on_several=True,
        http=OverHttp(
            "/topic/delete",
            "Delete a topic with its channels and messages. Of the log it can be restored.",
            "the topic, its channels and cursors; the trash restores it until it gives it up",
            parameters=(EXPECTED,),
            takes_author=True,
        ),
    ),
    Act(
        "empty_topic",
        Role.ADMIN,
        unchanged=(State.TOPIC, State.TOPIC_BACKLOG, *IN_CHANNEL, State.COUNTS),
        undo="restore_trash",
        on_several=True,
        http=OverHttp(
            "/topic/empty",
            "Drop the messages that wait at a topic. Of the log they can be restored.",
            _RESTORABLE,
            parameters=(EXPECTED,),
            takes_author=True,
        ),
    ),
    Act(
        "pause_topic",
        Role.OPERATOR,
        unchanged=(State.TOPIC, State.TOPIC_PAUSE),
        undo="unpause_topic",
        on_several=True,
        http=OverHttp(
            "/topic/pause",
            "Pass no more messages from a topic to its channels. Of a topic that is paused, change the reason or the "
            "end.",
            _STOPS,
            parameters=_PAUSE,
            takes_author=True,
            is_detailed=True,
        ),
    ),
    Act(
        "unpause_topic",
        Role.OPERATOR,
        unchanged=(State.TOPIC, State.TOPIC_PAUSE),
        on_several=True,
        http=OverHttp(
            "/topic/unpause",
            "Pass messages from a topic to its channels again. A ramp is one of its channels.",
            "consumers get messages that an operator held back",
            parameters=(RAMP,),
            is_detailed=True,
        ),
    ),
    Act(
        "retry_topic",
        Role.OPERATOR,
        kinds=_FENCES,
        unchanged=(State.TOPIC, State.TOPIC_FENCE),
        http=OverHttp(
            "/topic/retry",
            "Let a fenced topic go on.",
            "nothing; clears a fence, which comes again while its cause lasts",
        ),
    ),
    Act("publish", Role.OPERATOR, unchanged=(State.TOPIC,)),
    # Channels.
    Act(
        "create_channel",
        Role.OPERATOR,
        unchanged=(State.TOPIC, State.CHANNELS),
        http=OverHttp(
            "/channel/create",
            "Create a channel; one that exists stays as it is. Of a topic of the log it may begin at an older message.",
            "the log keeps the channel's unfinished messages; one of --max-channels-per-topic",
            parameters=(START_PLACE,),
        ),
    ),
    Act(
        "delete_channel",
        Role.ADMIN,
        unchanged=(State.CHANNEL, *OF_CHANNEL, State.COUNTS),
        undo="restore_trash",
        on_several=True,
        http=OverHttp(
            "/channel/delete",
            "Delete a channel with its messages. Of the log it can be restored.",
            _RESTORABLE,
            parameters=(EXPECTED,),
            takes_author=True,
        ),
    ),
    Act(
        "empty_channel",
        Role.ADMIN,
        unchanged=(State.CHANNEL, *IN_CHANNEL, State.COUNTS),
        undo="restore_trash",
        on_several=True,
        http=OverHttp(
            "/channel/empty",
            "Drop all messages of a channel. Of the log they can be restored.",
            _RESTORABLE,
            parameters=(EXPECTED,),
            takes_author=True,
        ),
    ),
    Act(
        "pause_channel",
        Role.OPERATOR,
        unchanged=(State.CHANNEL, State.CHANNEL_PAUSE),
        undo="unpause_channel",
        on_several=True,
        http=OverHttp(
            "/channel/pause",
            "Deliver no more messages of a channel. Of a channel that is paused, change the reason or the end.",
            _STOPS,
            parameters=_PAUSE,
            takes_author=True,
            is_detailed=True,
        ),
    ),
    Act(
        "unpause_channel",
        Role.OPERATOR,
        unchanged=(State.CHANNEL, State.CHANNEL_PAUSE),
        on_several=True,
        http=OverHttp(
            "/channel/unpause",
            "Deliver messages of a channel again. Of one that delivers slowly, end the ramp.",
            "consumers get messages that an operator held back",
            parameters=(RAMP,),
            is_detailed=True,
        ),
    ),
    Act(
        "retry_channel",
        Role.OPERATOR,
        kinds=_FENCES,
        unchanged=(State.CHANNEL, State.CHANNEL_FENCE),
        http=OverHttp(
            "/channel/retry",
            "Let a fenced channel go on; unfinished messages wait again.",
            "nothing; clears a fence, which comes again while its cause lasts",
        ),
    ),
    Act(
        "set_max_attempts",
        Role.OPERATOR,
        kinds=_QUARANTINE,
        unchanged=(State.CHANNEL, State.MAX_ATTEMPTS),
        http=OverHttp(
            "/channel/max_attempts",
            "Set after how many deliveries a message that comes back is quarantined; of a channel of the log.",
            "a low number quarantines messages that consumers would still handle; a redrive brings them back",
            parameters=(MAX_ATTEMPTS,),
            is_detailed=True,
        ),
    ),
    Act(
        "redrive_channel",
        Role.OPERATOR,
        kinds=_QUARANTINE,
        unchanged=(State.CHANNEL, State.QUARANTINE),
        http=OverHttp(
            "/channel/redrive",
            "Let all quarantined messages wait again in their channel, so many a second. It goes on after a restart.",
            _AGAIN,
            parameters=(REDRIVE_RATE, KEEP_ATTEMPTS),
            takes_author=True,
            is_detailed=True,
        ),
    ),
    Act(
        "cancel_redrive",
        Role.OPERATOR,
        kinds=_QUARANTINE,
        unchanged=(State.CHANNEL, State.QUARANTINE),
        http=OverHttp(
            "/channel/redrive/cancel",
            "Stop a redrive; messages that it did not reach stay quarantined.",
            "quarantined messages stay there until the next redrive",
            is_detailed=True,
        ),
    ),
    Act(
        "rewind_channel",
        Role.ADMIN,
        kinds=_BY_OFFSET,
        unchanged=(State.CHANNEL, *IN_CHANNEL),
        http=OverHttp(
            "/channel/seek",
            "Rewind a channel of the log, back or forth; one of offset, time_ms and to says where.",
            "forth: consumers miss messages, until a rewind back; back: they get messages twice",
            parameters=(SEEK_PLACE, KEEP_FINISHED, EXACT),
        ),
    ),
    Act(
        "requeue_channel",
        Role.OPERATOR,
        kinds=_MOVED,
        unchanged=(State.CHANNEL, State.IN_FLIGHT),
        on_several=True,
        http=OverHttp("/channel/requeue", "Let all messages in flight of a channel wait again now.", _AGAIN),
    ),
    Act(
        "release_deferred",
        Role.OPERATOR,
        kinds=_MOVED,
        unchanged=(State.CHANNEL, State.DEFERRED),
        http=OverHttp(
            "/channel/release",
            "Let all deferred messages of a channel wait like the others now.",
            "deferred messages come early",
        ),
    ),
    # Single messages of a channel.
    Act(
        "finish_messages",
        Role.ADMIN,
        kinds=_LISTED,
        unchanged=OF_MESSAGES,
        http=OverHttp(
            "/channel/message/finish",
            "Finish messages that wait, are deferred or in flight: they are never delivered again.",
            "consumers miss the message; on diskqueue it is gone",
        ),
    ),
    Act(
        "requeue_messages",
        Role.OPERATOR,
        kinds=_LISTED,
        unchanged=OF_MESSAGES,
        http=OverHttp("/channel/message/requeue", "Let messages in flight wait again now.", _AGAIN),
    ),
    Act(
        "release_messages",
        Role.OPERATOR,
        kinds=_LISTED,
        unchanged=OF_MESSAGES,
        http=OverHttp(
            "/channel/message/release",
            "Let deferred messages wait like the others now.",
            "a deferred message comes early",
        ),
    ),
    Act(
        "publish_again",
        Role.OPERATOR,
        kinds=_LISTED,
        unchanged=(*OF_MESSAGES, State.COPIES),
        http=OverHttp(
            "/channel/message/republish",
            "Publish the bodies of messages once more, to the same topic or another; those messages stay as they are.",
            f"{_AGAIN}; to another topic, which the token must administer, too",
            parameters=(PUBLISH_TO,),
        ),
    ),
    Act(
        "quarantine_messages",
        Role.OPERATOR,
        kinds=_QUARANTINE,
        unchanged=OF_MESSAGES,
        http=OverHttp(
            "/channel/message/quarantine",
            "Set messages aside that wait, are deferred or in flight, until they are redriven; of a channel of the "
            "log.",
            "consumers miss the message until a redrive",
        ),
    ),
    Act(
        "redrive_messages",
        Role.OPERATOR,
        kinds=_QUARANTINE,
        unchanged=OF_MESSAGES,
        http=OverHttp(
            "/channel/message/redrive",
            "Let quarantined messages wait again in their channel now.",
            _AGAIN,
            parameters=(KEEP_ATTEMPTS,),
        ),
    ),
    # The trash; the server does the last two by itself.
    Act(
        "restore_trash",
        Role.ADMIN,
        kinds=_TRASH,
        unchanged=(State.TOPIC, State.TRASH, State.TOPIC_BACKLOG, *IN_CHANNEL),
        http=OverHttp(
            "/trash/restore",
            "Bring back an entry's messages: waiting, deferred and in flight ones. A channel that lives again is "
            "joined: messages that either finished stay finished.",
            "consumers get the messages again; with swap, the topic of that name goes to the trash",
            parameters=(TRASH_ID.required(), TRASH_SWAP),
            takes_author=True,
        ),
    ),
    Act(
        "delete_trash",
        Role.ADMIN,
        kinds=_TRASH,
        unchanged=(State.TRASH,),
        http=OverHttp(
            "/trash/delete",
            "Delete an entry for good.",
            "the entry's messages, for good",
            parameters=(TRASH_ID.required(),),
        ),
    ),
    Act("expire_trash", None, unchanged=(State.TRASH,)),
    Act("give_up_trash", None, unchanged=(State.TRASH,)),
    # Pipeline cursors. The archive of a topic is the cursor of that name.
    Act(
        "create_cursor",
        None,
        kinds=_CURSORS,
        unchanged=(State.CURSOR,),
        http=OverHttp(
            "/cursor/create",
            "Create a cursor; one that exists stays as it is, but for anew.",
            OWN_READERS,
            parameters=(CURSOR_START_PLACE, CURSOR_ANEW),
            permission=Permission.CONSUME,
        ),
    ),
    Act(
        "move_cursor",
        None,
        kinds=_CURSORS,
        http=OverHttp(
            "/cursor/move",
            "Move a cursor on: its reader has stored everything before the offset. It never goes back.",
            "its own cursors: their reader misses messages",
            parameters=(CURSOR_NUMBER.required(), CURSOR_OFFSET.required(), CURSOR_LAKE),
            permission=Permission.CONSUME,
        ),
    ),
    Act(
        "delete_cursor",
        Role.ADMIN,
        kinds=_CURSORS,
        unchanged=(State.TOPIC, State.CURSOR, State.COUNTS),
        http=OverHttp(
            "/cursor/delete",
            "Delete a cursor: the log keeps nothing for it any more.",
            "its own cursors: their reader begins anew",
            permission=Permission.CONSUME,
        ),
    ),
    Act("archive_on", Role.OPERATOR, kinds=_CURSORS, unchanged=(State.TOPIC, State.CURSOR)),
    Act("archive_off", Role.ADMIN, kinds=_CURSORS, unchanged=(State.TOPIC, State.CURSOR, State.COUNTS)),
    Act("archive_again", Role.ADMIN, kinds=_CURSORS, unchanged=(State.TOPIC, State.CURSOR)),
    Act("set_archive_limits", Role.ADMIN, unchanged=(State.LIMITS,)),
    # The pipeline. A replay publishes, as an operator may: its messages are in the archive, not in an answer.
    Act("stop_job", Role.OPERATOR, unchanged=(State.JOB,)),
    Act("start_job", Role.OPERATOR, unchanged=(State.JOB,)),
    Act("plan_replay", Role.OPERATOR),
    Act("run_replay", Role.OPERATOR, unchanged=(State.REPLAY,)),
    Act("cancel_replay", Role.OPERATOR, unchanged=(State.REPLAY,)),
    # A tombstone ends by itself, after its lifetime. The maker of a token can give its rights to any program.
    Act("tombstone_producer", Role.OPERATOR, unchanged=(State.TOMBSTONE,)),
    # A channel that no nsqlookupd lists is not made by a node that gets the topic: it misses messages.
    Act("register_name", Role.OPERATOR),
    Act("unregister_topic", Role.ADMIN, unchanged=(State.REGISTRATION,)),
    Act("unregister_channel", Role.ADMIN, unchanged=(State.REGISTRATION,)),
    # The console sends requests to these addresses, from its own machine.
    Act("set_addresses", Role.ADMIN, unchanged=(State.ADDRESSES,)),
    Act("create_token", Role.ADMIN),
    Act("revoke_token", Role.ADMIN, unchanged=(State.PROGRAM,)),
    # Over HTTP alone, on paths that read; a look on a page is a page, and audited.
    Act("read_messages", None, kinds=_BY_OFFSET),
    Act("release_lease", None),
    Act("change_option", None),
)
ACTS: Mapping[str, Act] = {act.name: act for act in _TABLE}

# Uses that are no acts, or acts by another name, and still depend on the topic's kind.
USES: Mapping[str, Kinds] = {
    "publish_keyed": _KEYED,
    "write_batch": _KEYED,
    "find_key": _KEYED,
    "lease_messages": _BY_OFFSET,
    "list_messages": _LISTED,
    "search_messages": _SEARCH,
}


def kinds_of(name: str) -> Kinds:
    """Of an act or a use."""
    return ACTS[name].kinds if name in ACTS else USES[name]


def why_not(act: str, kind: str, *names: str) -> str:
    """Why `act`, or a use, can't be done to a topic of storage kind `kind`, "" where it can. names: the topic's, and
    the channel's where it is about one."""
    kinds = kinds_of(act)
    reason = kinds.log if kind == "log" else kinds.diskqueue
    if reason:
        return f"topic {names[0]} has storage kind {kind}: {reason}"
    if kinds.ephemeral and any(map(is_ephemeral, names)):
        return f"{'/'.join(names)} is ephemeral: {kinds.ephemeral}"
    return ""


def check(act: str, kind: str, *names: str) -> None:
    """Raises InvalidStorageError where `why_not` has a reason."""
    reason = why_not(act, kind, *names)
    if reason:
        raise InvalidStorageError(reason)


def rivals_of(action: str) -> frozenset[str]:
    """The acts that change the state that the question of `action` shows, itself included where it does."""
    changes = ACTS[action].changes
    return frozenset(act.name for act in _TABLE if act.changes & changes)
