"""The paths of pipeline cursors."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.declarations import Endpoint, Success

_NAMES = (parameters.TOPIC.required(), parameters.CURSOR.required())
_ERRORS = (errors.TOPIC_INVALID, errors.TOPIC_NOT_FOUND, errors.STORAGE_INVALID, errors.EXITING, errors.NOT_AUDITED)

CURSORS = {
    "/cursor/create": Endpoint(
        "Create a cursor; one that exists stays as it is, but for anew.",
        (Success("The cursor.", JSON, shapes.ref("CreatedCursor")),),
        (*_NAMES, *parameters.CURSOR_START_PLACE, parameters.CURSOR_ANEW),
        errors=(*_ERRORS, errors.CURSOR_INVALID, errors.OFFSET_NOT_THERE),
    ),
    "/cursor/move": Endpoint(
        "Move a cursor on: its reader has stored everything before the offset. It never goes back.",
        (Success("The cursor.", JSON, shapes.ref("Cursor")),),
        (*_NAMES, parameters.CURSOR_NUMBER.required(), parameters.CURSOR_OFFSET.required(), parameters.CURSOR_LAKE),
        errors=(*_ERRORS, errors.CURSOR_NOT_FOUND, errors.TOPIC_CHANGED, errors.LAKE_CHANGED, errors.OFFSET_BEYOND_END),
    ),
    "/cursor/delete": Endpoint(
        "Delete a cursor: nothing is kept for it any more.",
        (Success("The messages that it had not passed.", JSON, shapes.ref("DeletedCursor")),),
        _NAMES,
        errors=(*_ERRORS, errors.CURSOR_NOT_FOUND),
    ),
    "/cursor/list": Endpoint(
        "All cursors, and those that were deleted.",
        (Success("The cursors.", JSON, shapes.ref("CursorList")),),
        (parameters.CURSORS_TOPIC,),
    ),
}
