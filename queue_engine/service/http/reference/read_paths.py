"""The paths that read topics of the log without consuming, leases, and the preview of a rewind."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import BINARY, JSON, NOTHING
from queue_engine.service.http.reference.declarations import Endpoint, Success
from queue_engine.vocabulary.acts import parameters as act_parameters

_NAMED = (errors.TOPIC_MISSING, errors.TOPIC_INVALID, errors.TOPIC_NOT_FOUND, errors.STORAGE_INVALID)
_PAGE = {
    "X-Penstock-Topic-Number": "the topic's number",
    "X-Penstock-Id-Base": "with the number the topic's identity",
    "X-Penstock-First-Offset": "the offset that was requested",
    "X-Penstock-Next-Offset": "where the next page begins",
    "X-Penstock-Synced-Offset": "the offset up to which messages are certain to be on the disk",
    "X-Penstock-Count": "messages, or records, in the body",
}

READING = {
    "/topic/messages": Endpoint(
        "Messages of a topic from a place on (the oldest without one), those with a key, or those that a channel "
        "delivers next.",
        (Success("The messages.", JSON, shapes.ref("MessagePage")),),
        (
            act_parameters.TOPIC.required(),
            act_parameters.CHANNEL,
            *parameters.FROM_PLACE,
            *parameters.BY_KEY,
            parameters.LIMIT,
        ),
        errors=(
            *_NAMED,
            errors.CHANNEL_NOT_FOUND,
            errors.OFFSET_BEYOND_END,
            errors.NOT_AUDITED,
        ),
    ),
    "/log/read": Endpoint(
        "Messages in bulk, as frames that consumers get; only those that are certain to be on the disk.",
        (Success("The frames.", BINARY, headers=_PAGE),),
        (act_parameters.TOPIC.required(), act_parameters.OFFSET.required(), parameters.MAX_BYTES),
        errors=(*_NAMED, errors.OFFSET_BEYOND_END, errors.NOT_AUDITED),
    ),
    "/log/records": Endpoint(
        "The same as records of the log, each behind its position, salt and size (8, 8 and 4 bytes, big-endian).",
        (Success("The records.", BINARY, headers={**_PAGE, "X-Penstock-Oldest-Offset": "the oldest offset"}),),
        (act_parameters.TOPIC.required(), act_parameters.OFFSET.required(), parameters.MAX_RECORD_BYTES),
        errors=(*_NAMED, errors.OFFSET_BEYOND_END, errors.NOT_AUDITED),
    ),
    "/log/topic": Endpoint(
        "A topic's identity, its first and last offset, and which offsets have messages.",
        (Success("The topic's state.", JSON, shapes.ref("TopicState")),),
        (act_parameters.TOPIC.required(), act_parameters.TIME_MS, parameters.FROM_OFFSET),
        errors=_NAMED,
    ),
    "/log/lease": Endpoint(
        "Keep segments for a while: a new lease of a topic, or, with lease, the same one for longer or from a later "
        "offset.",
        (Success("The lease and its segments.", JSON, shapes.ref("LeasedFiles")),),
        (
            act_parameters.TOPIC,
            parameters.LEASE,
            parameters.LEASE_OFFSET,
            parameters.TTL_MS,
            parameters.SEGMENTS,
        ),
        errors=(
            *_NAMED,
            errors.OFFSET_OUTSIDE_LOG,
            errors.LEASE_NOT_FOUND,
            errors.EXITING,
            errors.NOT_AUDITED,
        ),
    ),
    "/log/renew": Endpoint(
        "Renew several leases as they are: all, or none.",
        (Success("Nothing: the leases are renewed.", NOTHING),),
        (parameters.TTL_MS,),
        body="the names of the leases, one a line",
        errors=(errors.LEASE_NOT_FOUND, errors.EXITING),
    ),
    "/log/release": Endpoint(
        "End a lease.",
        (Success("Nothing: the lease has ended.", NOTHING),),
        (parameters.LEASE.required(),),
        errors=(errors.LEASE_NOT_FOUND, errors.EXITING, errors.NOT_AUDITED),
    ),
}

PREVIEWS = {
    "/channel/seek/preview": Endpoint(
        "The messages that a rewind of a channel of the log would deliver. Changes nothing.",
        (Success("Where the channel would go on.", JSON, shapes.ref("SeekPreview")),),
        (act_parameters.TOPIC.required(), act_parameters.CHANNEL.required(), *act_parameters.SEEK_PLACE),
        errors=(
            errors.TOPIC_NOT_FOUND,
            errors.CHANNEL_NOT_FOUND,
            errors.STORAGE_INVALID,
            errors.OFFSET_BEYOND_END,
        ),
    ),
}

TRASH = {
    "/trash": Endpoint(
        "The trash: emptied or deleted topics and channels of the log that can be restored, newest first.",
        (Success("The entries.", JSON, shapes.ref("Trash")),),
    ),
}
CURSORS = {
    "/cursor/list": Endpoint(
        "All cursors, and those that were deleted.",
        (Success("The cursors.", JSON, shapes.ref("CursorList")),),
        (parameters.CURSORS_TOPIC,),
    ),
}
