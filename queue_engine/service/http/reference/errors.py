"""The errors of the HTTP API, each with its status, its word and when it comes.

Each path lists its own; those of all paths stand at the end.
"""

from queue_engine.service.http.reference.declarations import Endpoint, Error
from queue_engine.vocabulary.errors import OffsetTooHighError, OffsetTooLowError

MESSAGE_EMPTY = Error(400, "MSG_EMPTY", "the body is empty")
TOPIC_MISSING = Error(400, "MISSING_ARG_TOPIC", "topic is missing")
TOPIC_INVALID = Error(400, "INVALID_TOPIC", "topic is no valid name, or the server's own topic")
TOPIC_ARGUMENT_INVALID = Error(400, "INVALID_ARG_TOPIC", "topic is no valid name")
CHANNEL_MISSING = Error(400, "MISSING_ARG_CHANNEL", "channel is missing")
CHANNEL_ARGUMENT_INVALID = Error(400, "INVALID_ARG_CHANNEL", "channel is no valid name")
CURSOR_INVALID = Error(400, "INVALID_CURSOR", "cursor is no valid name")
DEFER_INVALID = Error(400, "INVALID_DEFER", "defer is no whole number, or above --max-req-timeout")
STORAGE_INVALID = Error(400, "INVALID_STORAGE", "the topic's storage kind is diskqueue, and only the log can do this")
STORAGE_UNKNOWN = Error(400, "INVALID_STORAGE", "there is no such storage kind, or the topic has the other one")
LIMIT_REACHED = Error(403, "LIMIT_REACHED", "a limit would be passed; the detail names it and its value")
OFFSET_BEYOND_END = Error(
    403, "LIMIT_REACHED", "the offset is beyond the topic's end", (OffsetTooHighError.finer_code,)
)
OFFSET_NOT_THERE = Error(403, "LIMIT_REACHED", "the log does not have the offset")
OFFSET_OUTSIDE_LOG = Error(
    403,
    "LIMIT_REACHED",
    "the offset is beyond the topic's end, or the log has removed it",
    (OffsetTooHighError.finer_code, OffsetTooLowError.finer_code),
)
QUOTA_EXCEEDED = Error(
    429,
    "QUOTA_EXCEEDED",
    "the client publishes faster than --publish-quota lets it; Retry-After has the seconds to wait",
)
TOPIC_NOT_FOUND = Error(404, "TOPIC_NOT_FOUND", "there is no such topic")
CHANNEL_NOT_FOUND = Error(404, "CHANNEL_NOT_FOUND", "the topic has no such channel")
MESSAGE_NOT_FOUND = Error(404, "MESSAGE_NOT_FOUND", "the channel has no such message, or it can't be looked up")
SEARCH_NOT_FOUND = Error(404, "SEARCH_NOT_FOUND", "there is no such search: it never was, or ended long ago")
LEASE_NOT_FOUND = Error(404, "LEASE_NOT_FOUND", "the lease never existed, expired or was released")
CURSOR_NOT_FOUND = Error(404, "CURSOR_NOT_FOUND", "the topic has no such cursor")
LAKE_CHANGED = Error(409, "LAKE_CHANGED", "the cursor belongs to another lake")
TOPIC_CHANGED = Error(409, "TOPIC_CHANGED", "the topic has another number: it was deleted, and perhaps created again")
DEBUG_OFF = Error(404, "NOT_FOUND", "the server was started without --debug-endpoints")
NO_BLOCK_PROFILE = Error(501, "NOT_SUPPORTED", "Python has no profile of blocking calls; see /debug/threads")
TRASH_NOT_FOUND = Error(404, "TRASH_NOT_FOUND", "the entry was restored, deleted for good, expired or given up")
TRASH_CONFLICT = Error(409, "TRASH_CONFLICT", "it can't be restored now; the detail names the step to do first")
COUNTS_CHANGED = Error(409, "COUNTS_CHANGED", "there are far more messages than `expected`; the detail has both counts")
BATCH_KEY_CONFLICT = Error(409, "BATCH_KEY_CONFLICT", "the batch key was used before, for other content")
FENCED_ACT = Error(409, "FENCED", "the act failed unexpectedly and the topic or channel is fenced; the detail says why")
MESSAGE_TOO_BIG = Error(413, "MSG_TOO_BIG", "a message is larger than --max-msg-size")
OPTION_UNKNOWN = Error(400, "INVALID_OPTION", "there is no such option, or it can't be changed while the server runs")
VALUE_INVALID = Error(400, "INVALID_VALUE", "the option can't have the value")
VALUE_TOO_BIG = Error(413, "INVALID_VALUE", "the value is empty, or larger than --max-msg-size")
BAD_BODY = Error(413, "BAD_BODY", "a binary body has a wrong count or size; --max-mpub-messages")
BAD_MESSAGE = Error(413, "BAD_MESSAGE", "a message of a binary body is empty, larger than --max-msg-size, or cut off")
OUTCOME_UNKNOWN = Error(500, "OUTCOME_UNKNOWN", "the disk did not confirm the act: it may be done after the next start")
FENCED = Error(503, "FENCED", "the topic is fenced until an operator retries it; nothing was stored")
STORAGE_REFUSED = Error(503, "STORAGE_REFUSED", "the disk refused; nothing was stored, or that is unknown")
EXITING = Error(503, "EXITING", "the server stops; nothing was done")
NOT_AUDITED = Error(503, "NOT_AUDITED", "the audit list can't be written, so nothing was done")

PUBLISH = (TOPIC_MISSING, TOPIC_INVALID, LIMIT_REACHED, QUOTA_EXCEEDED, FENCED, STORAGE_REFUSED, EXITING)
ACT = (TOPIC_INVALID, OUTCOME_UNKNOWN, EXITING, NOT_AUDITED)

# Of all paths.
BODY_TOO_BIG = Error(413, "BODY_TOO_BIG", "the body is larger than --max-body-size")
PARAMETER_WRONG = Error(400, "INVALID_REQUEST", "a parameter is missing or wrong, or the query can't be parsed")
ALWAYS = (
    Error(403, "FORBIDDEN_HOST", "the Host header is no name of this server (--broadcast-address, --allowed-host)"),
    Error(403, "FORBIDDEN_ORIGIN", "a web page of another origin sent the request"),
    Error(405, "METHOD_NOT_ALLOWED", "the path has another method, which the header Allow names"),
    Error(408, "REQUEST_TIMEOUT", "the request was not complete in time (--command-timeout)"),
    Error(500, "INTERNAL_ERROR", "the disk refused, or a fault of the server's; this request alone failed"),
    Error(503, "BUSY", "unfinished bodies wait for room (--max-pending-body-bytes), or too many read figures"),
    Error(503, "TOO_MANY_CONNECTIONS", "--max-connections are open, or the client has its share of them"),
)
TOKEN_REQUIRED = Error(403, "TOKEN_REQUIRED", "the token is missing or wrong")
NOT_ALLOWED = Error(403, "NOT_ALLOWED", "the token does not allow this, or not on this topic")
NOT_FOUND = Error(404, "NOT_FOUND", "there is no such path")
# Malformed requests are answered in plain text, as by Go's server: no valid HTTP/1, an Expect
# other than 100-continue, a head over 16 KiB, another Transfer-Encoding than chunked, another version than HTTP/1.
MALFORMED = (400, 417, 431, 501, 505)


def of_path(endpoint: Endpoint, *, needs_token: bool) -> tuple[Error, ...]:
    """All errors of a path, by status: its own, and those of all paths."""
    too_large = BODY_TOO_BIG
    if endpoint.is_message or endpoint.is_value:
        too_large = MESSAGE_TOO_BIG if endpoint.is_message else VALUE_TOO_BIG
    token = (TOKEN_REQUIRED, NOT_ALLOWED) if needs_token else ()
    parameter = (PARAMETER_WRONG,) if endpoint.parameters else ()
    found = (*endpoint.errors, *ALWAYS, *parameter, *token, too_large)
    return tuple(sorted(found, key=lambda error: (error.status, error.word)))
