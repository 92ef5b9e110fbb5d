"""The paths of acts, made of the acts' own table. Each is in the audit list; the answer comes when it is durable."""

from collections.abc import Mapping

from queue_engine.engine.messages.rows import IDS_MAX
from queue_engine.service.http.reference import errors
from queue_engine.service.http.reference.content_types import JSON, NOTHING
from queue_engine.service.http.reference.declarations import Endpoint, Error, Success
from queue_engine.service.http.reference.shapes import ref
from queue_engine.vocabulary.acts import parameters
from queue_engine.vocabulary.acts.act import Act, OverHttp
from queue_engine.vocabulary.acts.parameters import Parameter, Position
from queue_engine.vocabulary.acts.table import ACTS

_OF_TOPIC = (parameters.TOPIC.required(),)
_OF_CHANNEL = (*_OF_TOPIC, parameters.CHANNEL.required())
_OF_MESSAGES = (*_OF_CHANNEL, parameters.MESSAGE_ID, parameters.MESSAGE_OFFSET)
_OF_CURSOR = (*_OF_TOPIC, parameters.CURSOR.required())

# By the first part of a path: the names that the act takes.
_NAMES: Mapping[str, tuple[Parameter, ...]] = {
    "/topic/": _OF_TOPIC,
    "/channel/": _OF_CHANNEL,
    "/channel/message/": _OF_MESSAGES,
    "/trash/": (),
    "/cursor/": _OF_CURSOR,
}
_IDS = f"without id and offset: the messages' ids, one a line, at most {IDS_MAX:,}"
_DONE = Success("Nothing: the act is done.", NOTHING)
_ANSWERS = {
    "/channel/message/": Success("The result for each message, when it is durable.", JSON, ref("MessageResults")),
    "/trash/": Success("The topic, channel and counts of the act.", JSON, ref("TrashAct")),
    "rewind_channel": Success("Where the channel goes on.", JSON, ref("Seek")),
    "create_cursor": Success("The cursor.", JSON, ref("CreatedCursor")),
    "move_cursor": Success("The cursor.", JSON, ref("Cursor")),
    "delete_cursor": Success("The messages that it had not passed.", JSON, ref("DeletedCursor")),
}
# Of all acts with such a path, of one act, or of one that has the parameter.
_ERRORS: Mapping[str, tuple[Error, ...]] = {
    "/topic/": (*errors.ACT, errors.TOPIC_MISSING),
    "/channel/": (
        *errors.ACT,
        errors.FENCED_ACT,
        errors.TOPIC_MISSING,
        errors.TOPIC_ARGUMENT_INVALID,
        errors.CHANNEL_MISSING,
        errors.CHANNEL_ARGUMENT_INVALID,
        errors.TOPIC_NOT_FOUND,
    ),
    "/channel/message/": (
        errors.TOPIC_MISSING,
        errors.TOPIC_INVALID,
        errors.CHANNEL_MISSING,
        errors.TOPIC_NOT_FOUND,
        errors.CHANNEL_NOT_FOUND,
        *errors.ACT,
        errors.FENCED_ACT,
        errors.LIMIT_REACHED,
    ),
    "/trash/": (errors.TRASH_NOT_FOUND, errors.OUTCOME_UNKNOWN, errors.EXITING, errors.NOT_AUDITED),
    "/cursor/": (errors.TOPIC_INVALID, errors.TOPIC_NOT_FOUND, errors.EXITING, errors.NOT_AUDITED),
    "create_topic": (errors.LIMIT_REACHED,),
    "create_channel": (errors.STORAGE_INVALID, errors.LIMIT_REACHED, errors.OFFSET_BEYOND_END),
    "restore_trash": (errors.TRASH_CONFLICT, errors.LIMIT_REACHED),
    "create_cursor": (errors.CURSOR_INVALID, errors.OFFSET_NOT_THERE),
    "move_cursor": (errors.CURSOR_NOT_FOUND, errors.TOPIC_CHANGED, errors.LAKE_CHANGED, errors.OFFSET_BEYOND_END),
    "delete_cursor": (errors.CURSOR_NOT_FOUND,),
    "expected": (errors.COUNTS_CHANGED,),
    "storage": (errors.STORAGE_UNKNOWN,),
}
# A rewind reads its place first, and names that are missing or wrong name nothing that is there.
_OF_REWIND = (
    *errors.ACT,
    errors.FENCED_ACT,
    errors.OFFSET_OUTSIDE_LOG,
    errors.TOPIC_NOT_FOUND,
    errors.CHANNEL_NOT_FOUND,
)


def start_of(path: str) -> str:
    """The part of an act's path that names its kind of object: `/channel/` of `/channel/pause`."""
    return max((start for start in _NAMES if path.startswith(start)), key=len)


def _errors(act: Act, start: str, taken: tuple[Parameter, ...]) -> tuple[Error, ...]:
    if act.name == "rewind_channel":
        found = list(_OF_REWIND)
    else:
        found = [error for key in (start, act.name, *(one.name for one in taken)) for error in _ERRORS.get(key, ())]
        if not act.name.startswith("create_"):
            found += {
                "/topic/": [errors.TOPIC_NOT_FOUND, errors.FENCED_ACT],
                "/channel/": [errors.CHANNEL_NOT_FOUND],
            }.get(start, [])
    # Every entry of the trash is of the log.
    return (*found, errors.STORAGE_INVALID) if act.kinds.diskqueue and start != "/trash/" else tuple(found)


def _endpoint(act: Act, http: OverHttp) -> Endpoint:
    start = start_of(http.path)
    taken = tuple(one for given in http.parameters for one in (given if isinstance(given, Position) else (given,)))
    return Endpoint(
        http.text,
        (_ANSWERS.get(act.name) or _ANSWERS.get(start) or _DONE,),
        (*_NAMES[start], *taken),
        body=_IDS if start == "/channel/message/" else "",
        errors=_errors(act, start, taken),
    )


def paths_of_acts(*starts: str) -> dict[str, Endpoint]:
    """The paths of acts that begin with one of these."""
    return {
        act.http.path: _endpoint(act, act.http)
        for act in ACTS.values()
        if act.http is not None and start_of(act.http.path) in starts
    }
