"""The paths for single messages of a channel: lists by state, acts on them, and searches."""

from queue_engine.messages.rows import IDS_MAX
from queue_engine.service.http.reference import errors, parameters
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.declarations import Endpoint, Error, Success
from queue_engine.service.http.reference.parameters import Parameter
from queue_engine.service.http.reference.shapes import ref

_NAMES = (parameters.TOPIC.required(), parameters.CHANNEL.required())
_NAMED = (
    errors.TOPIC_MISSING,
    errors.TOPIC_INVALID,
    errors.CHANNEL_MISSING,
    errors.TOPIC_NOT_FOUND,
    errors.CHANNEL_NOT_FOUND,
)


def _act(text: str, *further: Parameter, errors_too: tuple[Error, ...] = ()) -> Endpoint:
    return Endpoint(
        text,
        (Success("What was done to each message, when it is durable.", JSON, ref("MessageResults")),),
        (*_NAMES, parameters.MESSAGE_ID, parameters.MESSAGE_OFFSET, *further),
        body=f"without id and offset: the messages' ids, one a line, at most {IDS_MAX:,}",
        errors=(*_NAMED, *errors.ACT, errors.FENCED_ACT, errors.LIMIT_REACHED, *errors_too),
    )


MESSAGES = {
    "/channel/messages": Endpoint(
        "The messages of a channel that are in one state. Consumes nothing.",
        (Success("A page of them.", JSON, ref("MessageRows")),),
        (
            *_NAMES,
            parameters.STATE,
            parameters.SORT,
            parameters.AFTER,
            parameters.ROWS,
            parameters.FIRST_OFFSET,
            parameters.END_OFFSET,
            parameters.SINCE_MS,
            parameters.UNTIL_MS,
            parameters.ATTEMPTS_MIN,
            parameters.ROWS_KEY,
            parameters.PREVIEW_BYTES,
        ),
        errors=(*_NAMED, errors.STORAGE_INVALID, errors.NOT_AUDITED),
    ),
    "/channel/message": Endpoint(
        "One message of a channel, by its id or its offset, with its state and its whole body.",
        (Success("The message.", JSON, ref("OneMessage")),),
        (*_NAMES, parameters.MESSAGE_ID, parameters.MESSAGE_OFFSET),
        errors=(*_NAMED, errors.MESSAGE_NOT_FOUND, errors.NOT_AUDITED),
    ),
    "/channel/message/finish": _act(
        "Finish messages that wait, are deferred or in flight: they are never delivered again."
    ),
    "/channel/message/requeue": _act("Let messages in flight wait again now."),
    "/channel/message/release": _act("Let deferred messages wait like the others now."),
    "/channel/message/republish": _act(
        "Publish the bodies of messages once more, to the same topic or another; those messages stay as they are.",
        parameters.PUBLISH_TO,
    ),
    "/channel/message/quarantine": _act(
        "Set messages aside that wait, are deferred or in flight, until they are redriven; of a channel of the log.",
        errors_too=(errors.STORAGE_INVALID,),
    ),
    "/channel/message/redrive": _act(
        "Let quarantined messages wait again in their channel now.",
        parameters.KEEP_ATTEMPTS,
        errors_too=(errors.STORAGE_INVALID,),
    ),
    "/channel/search": Endpoint(
        "Begin a search for a text in the bodies of a channel's messages. It ends when nobody asks for it for 15 s.",
        (Success("The search.", JSON, ref("Search")),),
        (
            *_NAMES,
            parameters.SEARCH_TEXT.required(),
            parameters.SEARCH_STATE,
            parameters.SEARCH_FROM,
            parameters.END_OFFSET,
        ),
        errors=(*_NAMED, errors.STORAGE_INVALID, errors.LIMIT_REACHED, errors.NOT_AUDITED),
    ),
    "/channel/search/state": Endpoint(
        "How far a search is, and what it found.",
        (Success("The search.", JSON, ref("Search")),),
        (parameters.SEARCH.required(),),
        errors=(errors.SEARCH_NOT_FOUND, errors.NOT_AUDITED),
    ),
    "/channel/search/cancel": Endpoint(
        "End a search.",
        (Success("The search.", JSON, ref("Search")),),
        (parameters.SEARCH.required(),),
        errors=(errors.SEARCH_NOT_FOUND, errors.NOT_AUDITED),
    ),
}
