"""The paths for single messages of a channel: lists by state, acts on them, and searches."""

from queue_engine.service.http.reference import errors, parameters
from queue_engine.service.http.reference.act_paths import paths_of_acts
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.declarations import Endpoint, Success
from queue_engine.service.http.reference.shapes import ref
from queue_engine.vocabulary.acts import parameters as act_parameters

_NAMES = (act_parameters.TOPIC.required(), act_parameters.CHANNEL.required())
_NAMED = (
    errors.TOPIC_MISSING,
    errors.TOPIC_INVALID,
    errors.CHANNEL_MISSING,
    errors.TOPIC_NOT_FOUND,
    errors.CHANNEL_NOT_FOUND,
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
            parameters.ROW_KEYS,
        ),
        errors=(*_NAMED, errors.STORAGE_INVALID, errors.NOT_AUDITED),
    ),
    "/channel/message": Endpoint(
        "One message of a channel, by its id or its offset, with its state and its whole body.",
        (Success("The message.", JSON, ref("OneMessage")),),
        (*_NAMES, act_parameters.MESSAGE_ID, act_parameters.MESSAGE_OFFSET, parameters.CONTENTS),
        errors=(*_NAMED, errors.MESSAGE_NOT_FOUND, errors.NOT_AUDITED),
    ),
    **paths_of_acts("/channel/message/"),
    "/channel/search": Endpoint(
        "Begin a search for a text in the bodies of a channel's messages. It ends when no request reads it for 15 s.",
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
        "The progress of a search, and its matches.",
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
