"""The paths that change topics and channels. Each act is in the audit list; the answer comes when it is durable."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import JSON, NOTHING
from queue_engine.service.http.reference.declarations import Endpoint, Error, Success
from queue_engine.service.http.reference.parameters import Parameter

_DONE = (Success("Nothing: the act is done.", NOTHING),)


_PAUSE = (parameters.REASON, parameters.PAUSE_FOR, parameters.PAUSE_UNTIL)


def _topic(text: str, *further: Parameter, errors_too: tuple[Error, ...] = ()) -> Endpoint:
    return Endpoint(
        text,
        _DONE,
        (parameters.TOPIC.required(), *further),
        errors=(*errors.ACT, errors.TOPIC_MISSING, errors.TOPIC_NOT_FOUND, errors.FENCED_ACT, *errors_too),
    )


def _channel(text: str, *further: Parameter, errors_too: tuple[Error, ...] = (errors.CHANNEL_NOT_FOUND,)) -> Endpoint:
    return Endpoint(
        text,
        _DONE,
        (parameters.TOPIC.required(), parameters.CHANNEL.required(), *further),
        errors=(
            *errors.ACT,
            errors.FENCED_ACT,
            errors.TOPIC_MISSING,
            errors.TOPIC_ARGUMENT_INVALID,
            errors.CHANNEL_MISSING,
            errors.CHANNEL_ARGUMENT_INVALID,
            errors.TOPIC_NOT_FOUND,
            *errors_too,
        ),
    )


ACTS = {
    "/topic/create": Endpoint(
        "Create a topic; one that exists stays as it is.",
        _DONE,
        (parameters.TOPIC.required(), parameters.STORAGE),
        errors=(
            *errors.ACT,
            errors.TOPIC_MISSING,
            errors.STORAGE_UNKNOWN,
            errors.LIMIT_REACHED,
        ),
    ),
    "/topic/delete": _topic(
        "Delete a topic with its channels and messages. Of the log it can be restored.",
        parameters.EXPECTED,
        errors_too=(errors.COUNTS_CHANGED,),
    ),
    "/topic/empty": _topic(
        "Drop the messages that wait at a topic. Of the log they can be restored.",
        parameters.EXPECTED,
        errors_too=(errors.COUNTS_CHANGED,),
    ),
    "/topic/pause": _topic(
        "Pass no more messages from a topic to its channels. Of a topic that is paused, change the reason or the end.",
        *_PAUSE,
    ),
    "/topic/unpause": _topic(
        "Pass messages from a topic to its channels again. A ramp is one of its channels.", parameters.RAMP
    ),
    "/topic/retry": _topic("Let a fenced topic go on."),
    "/channel/create": _channel(
        "Create a channel; one that exists stays as it is. Of a topic of the log it may begin at an older message.",
        *parameters.START_PLACE,
        errors_too=(errors.STORAGE_INVALID, errors.LIMIT_REACHED, errors.OFFSET_BEYOND_END),
    ),
    "/channel/delete": _channel(
        "Delete a channel with its messages. Of the log it can be restored.",
        parameters.EXPECTED,
        errors_too=(errors.CHANNEL_NOT_FOUND, errors.COUNTS_CHANGED),
    ),
    "/channel/empty": _channel(
        "Drop all messages of a channel. Of the log they can be restored.",
        parameters.EXPECTED,
        errors_too=(errors.CHANNEL_NOT_FOUND, errors.COUNTS_CHANGED),
    ),
    "/channel/pause": _channel(
        "Deliver no more messages of a channel. Of a channel that is paused, change the reason or the end.", *_PAUSE
    ),
    "/channel/unpause": _channel(
        "Deliver messages of a channel again. Of one that delivers slowly, end the ramp.", parameters.RAMP
    ),
    "/channel/retry": _channel("Let a fenced channel go on; what is not finished waits again."),
    "/channel/max_attempts": _channel(
        "Set after how many deliveries a message that comes back is quarantined; of a channel of the log.",
        parameters.MAX_ATTEMPTS,
        errors_too=(errors.CHANNEL_NOT_FOUND, errors.STORAGE_INVALID),
    ),
    "/channel/redrive": _channel(
        "Let all that is quarantined now wait again in its channel, so many a second. It goes on after a restart.",
        parameters.REDRIVE_RATE,
        parameters.KEEP_ATTEMPTS,
        errors_too=(errors.CHANNEL_NOT_FOUND, errors.STORAGE_INVALID),
    ),
    "/channel/redrive/cancel": _channel(
        "Stop a redrive; what it did not come to stays quarantined.",
        errors_too=(errors.CHANNEL_NOT_FOUND, errors.STORAGE_INVALID),
    ),
    "/channel/seek": Endpoint(
        "Rewind a channel of the log, back or forth; one of offset, time_ms and to says where.",
        (Success("Where the channel goes on.", JSON, shapes.ref("Seek")),),
        (parameters.TOPIC.required(), parameters.CHANNEL.required(), *parameters.SEEK_PLACE),
        errors=(
            *errors.ACT,
            errors.FENCED_ACT,
            errors.STORAGE_INVALID,
            errors.OFFSET_BEYOND_END,
            errors.TOPIC_NOT_FOUND,
            errors.CHANNEL_NOT_FOUND,
        ),
    ),
}
