"""The paths that publish. The answer comes when the messages are as durable as --sync makes them."""

from queue_engine.service.http.reference import errors, parameters, shapes
from queue_engine.service.http.reference.content_types import JSON
from queue_engine.service.http.reference.declarations import Endpoint, Success
from queue_engine.vocabulary.acts import parameters as act_parameters

PUBLISHING = {
    "/pub": Endpoint(
        "Publish one message; a new topic is created.",
        (Success("OK"),),
        (act_parameters.TOPIC.required(), parameters.DEFER, parameters.KEY),
        body="the message, 1 byte to --max-msg-size",
        is_message=True,
        errors=(*errors.PUBLISH, errors.MESSAGE_EMPTY, errors.DEFER_INVALID, errors.STORAGE_INVALID),
    ),
    "/mpub": Endpoint(
        "Publish several messages at once; a new topic is created.",
        (Success("OK"),),
        (act_parameters.TOPIC.required(), parameters.BINARY),
        body=(
            "a message a line; with binary their count, and each behind its size (4 bytes each, big-endian); "
            "--max-body-size bytes and --max-mpub-messages messages at most"
        ),
        errors=(*errors.PUBLISH, errors.MESSAGE_TOO_BIG, errors.BAD_BODY, errors.BAD_MESSAGE),
    ),
    "/log/write": Endpoint(
        "Publish a batch once per batch key, whole or not at all; the same request again changes nothing.",
        (Success("Where the batch is.", JSON, shapes.ref("WrittenBatch")),),
        (
            act_parameters.TOPIC.required(),
            parameters.BATCH_KEY.required(),
            parameters.REPLAYED,
            parameters.TOPIC_NUMBER,
        ),
        body=(
            "the count of messages (4 bytes, big-endian), then for each the length of its key (2 bytes, 0 for none), "
            "the length of its body (4 bytes), the key and the body"
        ),
        errors=(*errors.PUBLISH, errors.STORAGE_INVALID, errors.TOPIC_CHANGED, errors.BATCH_KEY_CONFLICT),
    ),
}
