"""Messages larger than one run to a consumer, given back in every way a consumer has: the server goes on.

At 897736b the process exited: the budget of bytes of such a run went below 0, and a negative count of messages was
dropped from the line of those that were given back.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from queue_engine.delivery.channel import RUN_BYTES_MAX
from tests.support.nsq_socket import Message, NsqSocket, mpub_body, sized
from tests.support.processes.engine_process import EngineProcess

pytestmark = pytest.mark.slow(reason="starts real servers")

BODIES = sorted(bytes([65 + number]) * (RUN_BYTES_MAX + (36 << 10)) for number in range(4))
TIMEOUT_S = 30.0


def _requeue(consumer: NsqSocket, messages: list[Message]) -> None:
    for message in messages:
        consumer.send(b"REQ " + message.id + b" 0\n")


def _disconnect(consumer: NsqSocket, messages: list[Message]) -> None:
    consumer.close()


def _let_time_out(consumer: NsqSocket, messages: list[Message]) -> None:
    """Nothing: they come again after the consumer's timeout."""


@pytest.mark.parametrize("storage", ["log", "diskqueue"])
@pytest.mark.parametrize("give_back", [_requeue, _disconnect, _let_time_out])
def test_large_messages_that_are_given_back_come_again(
    tmp_path: Path, storage: str, give_back: Callable[[NsqSocket, list[Message]], None]
) -> None:
    with EngineProcess(tmp_path, options=[f"--storage={storage}", "--queue-scan-interval=20ms"]) as server:
        with NsqSocket(server.tcp_port) as producer:
            producer.send(b"MPUB large\n" + sized(mpub_body(BODIES)))
            producer.expect_ok()
        msg_timeout_ms = 1_000 if give_back is _let_time_out else 60_000
        consumer = _consumer(server, msg_timeout_ms)
        attempts = dict.fromkeys(BODIES, 0)
        for attempt in range(1, 4):
            newest: dict[bytes, Message] = {}
            # On a machine that stalls, some time out once more before the last has come.
            while min(attempts.values()) < attempt:
                message = consumer.read_message(TIMEOUT_S)
                assert message.attempts == attempts[message.body] + 1
                assert give_back is _let_time_out or message.attempts == attempt
                attempts[message.body] = message.attempts
                newest[message.body] = message
            give_back(consumer, list(newest.values()))
            if give_back is _disconnect:
                consumer = _consumer(server, msg_timeout_ms)
        consumer.close()
        consumer = _consumer(server, 60_000)
        for message in [consumer.read_message(TIMEOUT_S) for _ in BODIES]:
            consumer.finish(message)
        consumer.send(b"CLS\n")
        assert consumer.read_response(TIMEOUT_S) == b"CLOSE_WAIT"
        assert server.channel_stats("large", "c")["depth"] == 0
        consumer.close()


def _consumer(server: EngineProcess, msg_timeout_ms: int) -> NsqSocket:
    consumer = NsqSocket(server.tcp_port)
    consumer.identify(msg_timeout=msg_timeout_ms)
    consumer.subscribe("large", "c", rdy=10)
    return consumer
