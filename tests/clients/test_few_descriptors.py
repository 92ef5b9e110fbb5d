"""A thousand topics under `ulimit -n 256`: descriptors are shared, none is missing, nothing is lost."""

from pathlib import Path

import pytest

from tests.support.engine_process import DESCRIPTORS_VARIABLE, EngineProcess
from tests.support.nsq_socket import NsqSocket, sized

pytestmark = pytest.mark.slow

TOPICS = 1_000
DESCRIPTORS = 256


def test_a_thousand_topics_work_with_few_descriptors(tmp_path: Path) -> None:
    options = ["--mem-queue-size=0", "--log-segment-bytes=1048576", "--max-body-size=65536"]
    environment = {DESCRIPTORS_VARIABLE: str(DESCRIPTORS)}
    options.append("--max-msg-size=65536")
    with EngineProcess(tmp_path / "data", options=options, environment=environment) as server:
        with NsqSocket(server.tcp_port) as client:
            for turn in range(3):
                for number in range(TOPICS):
                    client.send(b"PUB t%d\n" % number + sized(b"%d.%d" % (turn, number) + b"x" * 2_000))
                for _ in range(TOPICS):
                    client.expect_ok()
        assert sum(topic["depth"] for topic in server.stats()["topics"]) == 3 * TOPICS
        server.kill9()
        server.start()
        assert server.http("GET", "/ping") == b"OK"
        assert sum(topic["depth"] for topic in server.stats()["topics"]) == 3 * TOPICS
        for number in range(0, TOPICS, 50):
            with NsqSocket(server.tcp_port) as client:
                client.subscribe(f"t{number}", "c", rdy=10)
                messages = [client.read_message() for _ in range(3)]
                assert [message.body.split(b"x")[0] for message in messages] == [
                    b"%d.%d" % (turn, number) for turn in range(3)
                ]
                for message in messages:
                    client.finish(message)
