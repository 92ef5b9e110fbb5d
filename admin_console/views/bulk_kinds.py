"""The acts that can be done on several topics or channels at once, and their words."""

from dataclasses import dataclass

from admin_console.views import pausing, risky_acts
from admin_console.views.act_page import ActPage


@dataclass(frozen=True, slots=True)
class BulkActKind:
    """An act that can be done on a selection. verb and past: of the sentences. consequence: of all selected ones, a
    sentence.

    asks_like_one: the act's own fields, such as how long a pause lasts, are filled in once for all.
    """

    page: type[ActPage]
    verb: str
    past: str
    consequence: str
    has_own_fields: bool = False
    is_dangerous: bool = False


KINDS = {
    "pause_topic": BulkActKind(
        pausing.PausePage,
        "Pause",
        "Paused",
        "Their messages stay at the topics until they are resumed.",
        True,
    ),
    "unpause_topic": BulkActKind(
        pausing.ResumePage, "Resume", "Resumed", "Messages at the topics go on to their channels.", True
    ),
    "empty_topic": BulkActKind(
        risky_acts.EmptyTopic,
        "Empty",
        "Emptied",
        "Only messages at the topics themselves are removed; messages in their channels stay.",
        is_dangerous=True,
    ),
    "delete_topic": BulkActKind(
        risky_acts.DeleteTopic,
        "Delete",
        "Deleted",
        "The topics, their channels and all their messages are deleted; their consumers are disconnected.",
        is_dangerous=True,
    ),
    "pause_channel": BulkActKind(
        pausing.PausePage,
        "Pause",
        "Paused",
        "Their consumers get nothing until they are resumed.",
        True,
    ),
    "unpause_channel": BulkActKind(
        pausing.ResumePage,
        "Resume",
        "Resumed",
        "Their consumers receive the messages as fast as they can take them.",
        True,
    ),
    "requeue_channel": BulkActKind(
        risky_acts.RequeueChannel,
        "Requeue",
        "Requeued",
        "Messages in flight go back to the queue. They may be processed twice: consumers may still work on them.",
    ),
    "empty_channel": BulkActKind(
        risky_acts.EmptyChannel,
        "Empty",
        "Emptied",
        "All their queued, deferred and in-flight messages are removed.",
        is_dangerous=True,
    ),
    "delete_channel": BulkActKind(
        risky_acts.DeleteChannel,
        "Delete",
        "Deleted",
        "The channels are deleted with all their messages; their consumers are disconnected.",
        is_dangerous=True,
    ),
}
