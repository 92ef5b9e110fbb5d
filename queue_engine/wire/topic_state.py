"""A topic of the log: its identity, how far it goes, and which offsets have messages. GET /log/topic answers it.

    {"topic": "orders", "number": 7, "id_base": 912, "storage": "log",
     "oldest_offset": 0, "synced_offset": 40, "end_offset": 45,
     "ranges": [[0, 12], [20, 40]], "ranges_end": 40, "time_offset": 3}

time_offset is there only where the request names a time.
"""

from dataclasses import asdict, dataclass

import orjson

from queue_engine.vocabulary.json_fields import fields_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """number, id_base: the topic's identity. synced_offset: the end of the part that is certain to be on the disk.

    ranges: the offsets of that part that have messages, each (first, next), ascending; None for all, as engines answer
    that do not have the field yet. Offsets between them were reserved and never used, or their messages are lost.
    ranges_end: the offset up to which `ranges` is complete; a request with that offset gets the next ones.
    time_offset: the first offset published at the requested time or later; None where no time was requested.
    """

    topic: str
    number: int
    id_base: int
    storage: str = "log"
    oldest_offset: int
    synced_offset: int
    end_offset: int
    ranges: tuple[tuple[int, int], ...] | None = None
    ranges_end: int = 0
    time_offset: int | None = None

    def encoded(self) -> bytes:
        answer = asdict(self)
        if self.time_offset is None:
            del answer["time_offset"]
        return orjson.dumps(answer)


def read_topic_state(data: bytes) -> TopicState:
    found = fields_of(TopicState, orjson.loads(data))
    if "ranges" in found:
        found["ranges"] = tuple((first, after) for first, after in found["ranges"])
    return TopicState(**found)
