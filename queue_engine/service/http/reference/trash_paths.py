"""The paths of the trash."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.declarations import Endpoint, Success

_ERRORS = (errors.TRASH_NOT_FOUND, errors.OUTCOME_UNKNOWN, errors.EXITING, errors.NOT_AUDITED)
_DONE = (Success("What the act concerned.", JSON, shapes.ref("TrashAct")),)

TRASH = {
    "/trash": Endpoint(
        "What was emptied or deleted of topics of the log and can be restored, newest first.",
        (Success("The entries.", JSON, shapes.ref("Trash")),),
    ),
    "/trash/restore": Endpoint(
        "Bring back what an entry has: what waited, was deferred or in flight. A channel that lives again is joined: "
        "what either finished stays finished.",
        _DONE,
        (parameters.TRASH_ID.required(), parameters.TRASH_SWAP),
        errors=(*_ERRORS, errors.TRASH_CONFLICT, errors.LIMIT_REACHED),
    ),
    "/trash/delete": Endpoint(
        "Delete an entry for good.",
        _DONE,
        (parameters.TRASH_ID.required(),),
        errors=_ERRORS,
    ),
}
