"""Topics of the log as tests fill them and look at them: over HTTP, frame by frame."""

import struct
import urllib.request
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.processes.engine_api import ANSWER_TIMEOUT_S, EngineApi


class Published(NamedTuple):
    """One message as `/log/read` has it. time_ns: Unix."""

    topic: str
    offset: int
    message_id: str
    time_ns: int
    body: bytes


def publish(engine: EngineApi, topic: str, bodies: Sequence[bytes]) -> None:
    """One MPUB."""
    parts = [len(bodies).to_bytes(4, "big")]
    for body in bodies:
        parts += [len(body).to_bytes(4, "big"), body]
    assert engine.http("POST", f"/mpub?topic={topic}&binary=true", b"".join(parts)) == b"OK"


def published(engine: EngineApi, topic: str) -> list[Published]:
    """All synced messages of a topic, by their ids and frames."""
    found: list[Published] = []
    offset = 0
    while True:
        url = f"http://127.0.0.1:{engine.http_port}/log/read?topic={topic}&offset={offset}&max_bytes={4 << 20}"
        with urllib.request.urlopen(url, timeout=ANSWER_TIMEOUT_S) as answer:
            frames = answer.read()
            id_base = int(answer.headers["X-Penstock-Id-Base"])
            next_offset = int(answer.headers["X-Penstock-Next-Offset"])
        at = 0
        while at < len(frames):
            size, time_ns, message_id = struct.unpack_from(">i4xq2x16s", frames, at)
            body = frames[at + 34 : at + 4 + size]
            found.append(Published(topic, int(message_id, 16) - id_base, message_id.decode(), time_ns, body))
            at += 4 + size
        if next_offset == offset:
            return found
        offset = next_offset
