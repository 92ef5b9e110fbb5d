"""The server's options, made from a seed: its storage, its limits, its timeouts."""

import random
from dataclasses import dataclass

from queue_engine.vocabulary.options.option import flag_of
from queue_engine.vocabulary.options.options import LOG_BYTES_PER_BODY_BYTE_MAX, Options
from tests.faults.wire.sizes import limits_of, limits_of_the_code

MSG_TIMEOUT_MS = 300  # what consumers have that ask for no other


@dataclass(frozen=True)
class Setting:
    """flags: the server's. limits: bytes, where a size is worth trying."""

    storage: str
    options: Options
    flags: list[str]
    limits: list[int]

    @property
    def is_log(self) -> bool:
        return self.storage == "log"

    @classmethod
    def of(cls, rng: random.Random, storage: str) -> "Setting":
        max_msg_size = rng.choice((1 << 20, 1 << 20, 1 << 20, 200_000, 4_096))
        max_body_size = max_msg_size * rng.choice((1, 2, 5))
        segment_bytes_min = max(LOG_BYTES_PER_BODY_BYTE_MAX * max_body_size, 64 << 10)
        given = {
            "storage": storage,
            "msg_timeout_ms": MSG_TIMEOUT_MS,
            "queue_scan_interval_ms": rng.choice((10, 30, 100)),
            "max_msg_size": max_msg_size,
            "max_body_size": max_body_size,
            "log_segment_bytes": rng.choice((segment_bytes_min, max(segment_bytes_min, 128 << 20))),
            "mem_queue_size": rng.choice((0, 0, 1, 3, 20, 10_000)),
            "max_bytes_per_file": rng.choice((1 << 10, 64 << 10, 1 << 20, 100 << 20)),
            "sync": rng.choice(("always", "always", "interval", "os")),
            "sync_every": rng.choice((1, 10, 2_500)),
            "sync_timeout_ms": 100,
            "samples_interval_ms": 0,
        }
        options = Options(**given)
        options.validate()
        flags = [f"{flag_of(name)}={_text(name, value)}" for name, value in given.items()]
        limits = sorted({*limits_of_the_code().values(), *limits_of(options).values()})
        return cls(storage, options, flags, limits)


def _text(name: str, value: object) -> str:
    return f"{value}ms" if name.endswith("_ms") else str(value)
