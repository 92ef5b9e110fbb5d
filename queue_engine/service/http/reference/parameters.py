"""The query parameters of paths that are no acts: their names, limits and defaults. Those of acts, and the types of
parameters, are in `vocabulary/acts/parameters.py`.

The code that reads a parameter takes its limits from here, and the OpenAPI document states the same.
"""

from dataclasses import replace

from queue_engine.engine.acts.log_acts import (
    KEY_BYTES_MAX,
    LEASE_SEGMENTS_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    READ_BYTES_MAX,
    READ_MESSAGES_MAX,
    READ_RECORDS_BYTES,
)
from queue_engine.engine.messages.rows import (
    BY_AGE,
    BY_ATTEMPTS,
    PREVIEW_BYTES_MAX,
    ROWS_MAX,
    STATES,
    TEXT_BYTES_MAX,
    WAITING,
)
from queue_engine.vocabulary.acts.parameters import (
    END,
    NUMBER_MAX,
    OFFSET,
    START,
    TIME_MS,
    Parameter,
    Pattern,
    Position,
    Repeated,
    WholeNumber,
    Word,
)

CURSORS_TOPIC = Parameter("topic", "those of this topic alone")
STATS_TOPIC = Parameter("topic", "this topic alone; of producers, those that published to it")
STATS_CHANNEL = Parameter("channel", "these channels alone, of each topic that is shown")
METRICS_TOPIC = Repeated(
    "topic", "topics of this name alone, with * and ? for any characters; may be repeated", times_max=100
)
FORMAT = Parameter("format", "json for JSON; text for people without it")
INCLUDE_CLIENTS = Parameter("include_clients", "false or 0: without the consumers of each channel")
INCLUDE_MEM = Parameter("include_mem", "false or 0: without the memory of the process")
INCLUDE_BUCKETS = Parameter(
    "include_buckets", "true or 1: latencies have their buckets, so that those of several servers can be added up"
)

DEFER = WholeNumber("defer", "milliseconds until the message is delivered, at most --max-req-timeout", most=None)
KEY = Parameter(
    "key",
    f"the message's key, 1 to {KEY_BYTES_MAX} bytes of UTF-8; not with defer",
    shortest=1,
    longest=KEY_BYTES_MAX,
)
BINARY = Parameter(
    "binary", "any value but false and 0: the body is a count and messages with sizes instead of one message a line"
)
BATCH_KEY = Pattern(
    "batch_key",
    "32 hex digits, not all 0: the batch is written once under this key",
    pattern="^(?!0{32})[0-9a-fA-F]{32}$",
)
REPLAYED = Word("replayed", "flag the messages as replayed", words=("true", "false"), default="false")
TOPIC_NUMBER = WholeNumber("number", "refuse unless the topic has this number", most=NUMBER_MAX)

FROM_PLACE = Position(
    OFFSET, TIME_MS, Word("from", "the oldest message that the log has, or behind the newest one", words=(START, END))
)

WANTED_KEY = replace(KEY, text="the messages with this key, the newest first; alone, or with before")
BEFORE = replace(OFFSET, name="before", text="with key: those at offsets below this one; next_before of an answer")
BY_KEY = (WANTED_KEY, BEFORE)
ROWS_KEY = replace(KEY, text="only messages with this key, the newest first; of the log, and not with sort")
LIMIT = WholeNumber("limit", "most messages in the answer", most=READ_MESSAGES_MAX, default=10)
MAX_BYTES = WholeNumber(
    "max_bytes", "about how many bytes the answer has; one message at least", most=READ_BYTES_MAX, default=1 << 20
)
MAX_RECORD_BYTES = replace(
    MAX_BYTES, text="about how many bytes the answer has; one record at least", default=READ_RECORDS_BYTES
)
FROM_OFFSET = replace(OFFSET, text="ranges of offsets from this one on", default=0)
TTL_MS = WholeNumber(
    "ttl_ms", "how long the lease lasts, milliseconds", least=LEASE_TTL_MS_MIN, most=LEASE_TTL_MS_MAX, default=60_000
)
SEGMENTS = WholeNumber(
    "segments", "most segment files in the answer", most=LEASE_SEGMENTS_MAX, default=LEASE_SEGMENTS_MAX
)
LEASE = Parameter("lease", "the lease's name", shortest=1)
LEASE_OFFSET = replace(OFFSET, text="the first offset that the lease holds; required for a new lease")
# Single messages of a channel.
STATE = Word("state", "messages in this state", words=STATES, default=WAITING)
SORT = Word(
    "sort",
    "the most attempts first, or the oldest first; without it as they are delivered, time out or are due, of finished "
    "ones the newest first",
    words=(BY_ATTEMPTS, BY_AGE),
)
AFTER = Parameter("after", "next_cursor of the page before", shortest=1, longest=20)
ROWS = WholeNumber("limit", "most messages in the answer", most=ROWS_MAX, default=50)
FIRST_OFFSET = replace(OFFSET, name="first_offset", text="messages from this offset on; not of a disk queue")
END_OFFSET = replace(OFFSET, name="end_offset", text="messages before this offset; not of a disk queue")
SINCE_MS = replace(TIME_MS, name="since_ms", text="messages published then or later, Unix milliseconds")
UNTIL_MS = replace(TIME_MS, name="until_ms", text="messages published before, Unix milliseconds")
ATTEMPTS_MIN = WholeNumber("attempts_min", "messages with at least so many deliveries", most=65_535, default=0)
PREVIEW_BYTES = WholeNumber("preview_bytes", "so much of each body is shown", most=PREVIEW_BYTES_MAX, default=0)
ROW_KEYS = Word(
    "keys",
    "whether rows have the messages' keys; false without key and preview_bytes shows no contents, and is not audited",
    words=("true", "false"),
    default="true",
)
CONTENTS = Word(
    "contents",
    "whether the message has its body and key; false shows no contents, and is not audited",
    words=("true", "false"),
    default="true",
)
SEARCH_TEXT = Parameter("text", "the text to find, each letter as it is", shortest=1, longest=TEXT_BYTES_MAX)
SEARCH_STATE = Word("state", "only messages in this state", words=STATES)
SEARCH_FROM = replace(FIRST_OFFSET, text="begin here; without it where the channel's unfinished messages begin")
SEARCH = Parameter("search", "the search's name", shortest=1, longest=40)
