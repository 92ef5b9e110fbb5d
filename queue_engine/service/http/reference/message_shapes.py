"""JSON schemas of answers about single messages of a channel."""

from queue_engine.engine.messages.rows import STATES
from queue_engine.service.http.reference.shapes import COUNT, NUMBER, TEXT, YES_OR_NO, array, nullable, record, ref

MESSAGE_ROW = record(
    {
        "state": TEXT,
        "id": TEXT,
        "offset": nullable(COUNT),
        "attempts": COUNT,
        "timestamp": nullable(COUNT),
        "body_bytes": nullable(COUNT),
        "due": nullable(COUNT),
        "quarantined_at": nullable(COUNT),
        "reason": TEXT,
        "history": array(record({"time": COUNT, "reason": TEXT, "consumer": TEXT})),
        "client_key": nullable(COUNT),
        "client_id": TEXT,
        "client_address": TEXT,
        "deadline_ms": nullable(NUMBER),
        "held_ms": nullable(NUMBER),
        "touches": COUNT,
        "problem": TEXT,
        "body": TEXT,
        "body_base64": TEXT,
        "key": TEXT,
        "key_base64": TEXT,
    },
    optional=("body", "body_base64", "key", "key_base64"),
    text=(
        "A message of a channel. offset: null of a disk queue. attempts: deliveries so far. timestamp: of publishing, "
        "due: until when it is deferred, both Unix nanoseconds. client_key, client_id, client_address: who holds it; "
        "deadline_ms, held_ms: until its timeout, and since its delivery. quarantined_at, reason: since when "
        "it is set aside, Unix nanoseconds, and why; history: how its last deliveries ended, oldest first. "
        "problem: why it can't be read. body, or "
        "body_base64 where it is not UTF-8: as many bytes as requested."
    ),
)
MESSAGE_ROWS = record(
    {
        "topic": TEXT,
        "number": COUNT,
        "channel": TEXT,
        "channel_number": COUNT,
        "storage": TEXT,
        "state": TEXT,
        "counts": record({state: nullable(COUNT) for state in STATES}),
        "next_cursor": TEXT,
        "bounded": YES_OR_NO,
        "note": TEXT,
        "messages": array(ref("MessageRow")),
    },
    text=(
        "counts: messages in each state, null for unknown. next_cursor: after of the next page, empty at the end. "
        "bounded: messages were left out, since a page looks at 10,000 at most. note: messages that can't be listed."
    ),
)
ONE_MESSAGE = record(
    {"topic": TEXT, "channel": TEXT, "storage": TEXT, "message": ref("MessageRow")},
    text="The message has its whole body.",
)
MESSAGE_RESULTS = record(
    {
        "done": COUNT,
        "results": array(
            record(
                {
                    "asked": TEXT,
                    "offset": nullable(NUMBER),
                    "was": TEXT,
                    "code": TEXT,
                    "text": TEXT,
                    "new_id": TEXT,
                    "new_offset": nullable(COUNT),
                }
            )
        ),
    },
    text=(
        "A result for each message: asked, its id or offset in the request; was, its state before; code, empty where "
        "the act was done, else the reason; new_id and new_offset, of a message that was published again. done: how "
        "many acts were done."
    ),
)
SEARCH = record(
    {
        "search": TEXT,
        "topic": TEXT,
        "channel": TEXT,
        "text": TEXT,
        "state": TEXT,
        "status": TEXT,
        "first_offset": COUNT,
        "next_offset": COUNT,
        "end_offset": COUNT,
        "message_count": COUNT,
        "message_total": COUNT,
        "scanned_bytes": COUNT,
        "problem": TEXT,
        "hits": array(
            record(
                {"message": ref("MessageRow"), "at": COUNT, "around": TEXT, "around_base64": TEXT},
                optional=("around", "around_base64"),
            )
        ),
    },
    text=(
        "status: running, or why it ended: at_end; full, at 100 hits, or bounded, at 4 GiB, so that another search "
        "goes on from next_offset; cancelled, failed. message_count of message_total are passed. at: where in the body "
        "the text begins; around: that part of the body."
    ),
)
