"""A consumer that does not read: it is sent its output buffer and one message more, and goes on when it reads."""

import json
from pathlib import Path

import pytest

from queue_engine.vocabulary.message import FRAME_HEADER_BYTES
from tests.service.tcp.session_bench import Bench, pub
from tests.support.nsq_socket import sized

DEFAULT_OUTPUT_BUFFER_BYTES = 16 << 10


@pytest.mark.parametrize("body_bytes", [100, 1_000, 15_000, 17_000, 70_000, 500_000])
@pytest.mark.parametrize("waits", [False, True], ids=["as it is published", "of a backlog"])
@pytest.mark.parametrize("wished", [{}, {"output_buffer_size": 64 << 10, "output_buffer_timeout": 1_000}])
async def test_what_is_written_to_it_ends(tmp_path: Path, body_bytes: int, wished: dict[str, int], waits: bool) -> None:
    bench = Bench(tmp_path)
    store = bench.known_topic("t")
    consumer, producer = bench.client(), bench.client()
    if wished:
        consumer.send(b"IDENTIFY\n" + sized(json.dumps(wished).encode()))
    consumer.send(b"SUB t c\n")
    bench.background.finish()
    consumer.turn()
    if not waits:
        consumer.send(b"RDY 2500\n")
    consumer.transport.is_full = True
    count = max(10, 300_000 // body_bytes)
    for _ in range(count):
        producer.send(pub("t", b"x" * body_bytes))
        producer.turn()
        store.complete(len(store.pending))
        producer.turn()
    if waits:
        consumer.send(b"RDY 2500\n")
        for _ in range(count):
            consumer.turn()
    held_bytes = consumer.transport.get_write_buffer_size()
    output_buffer_bytes = wished.get("output_buffer_size", DEFAULT_OUTPUT_BUFFER_BYTES)
    assert output_buffer_bytes < held_bytes <= output_buffer_bytes + FRAME_HEADER_BYTES + body_bytes
    assert not consumer.session.is_writable
    sent = len(consumer.frames)
    consumer.transport.drain()
    consumer.turn()
    for _ in range(count):
        consumer.transport.drain()
        consumer.turn()
    consumer.session._output.flush()
    received = [frame for frame in consumer.frames if frame.startswith("message")]
    assert len(received) == min(count, 2_500), f"{sent} frames were sent before it read"
