"""kill -9 of the real server, 14 times: no acknowledged message is lost, with any sync policy; no finish is."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from queue_engine.wire.batch import encode_batch
from tests.faults.kill_runs import ACKNOWLEDGED_MIN, run
from tests.support import disk_files
from tests.support.nsq_socket import NsqSocket, mpub_body, sized
from tests.support.processes.engine_process import EngineProcess
from tests.support.waiting import wait_for

tmp_path_factory = disk_files.tmp_path_factory

pytestmark = pytest.mark.slow(reason="kills real servers")

KILLS = {"always": 6, "interval": 4, "os": 4}  # `python -m tests.faults.kill_runs` has a thousand


@pytest.mark.timeout(300)
@pytest.mark.parametrize("policy", KILLS)
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path, policy: str) -> None:
    assert run(tmp_path / "data", KILLS[policy], seed=7, policy=policy) > ACKNOWLEDGED_MIN * KILLS[policy]


# A client that closes with unread messages resets its connection, and the finishes that it sent just before are gone.
# CLOSE_WAIT is the answer behind them: the server has read them.
def test_a_finish_that_the_server_has_read_does_not_come_again_after_a_kill(tmp_path: Path) -> None:
    finished: set[bytes] = set()

    def consume(port: int) -> None:
        with NsqSocket(port) as client:
            client.subscribe("orders", "billing", rdy=50)
            for _ in range(100):
                message = client.read_message(timeout_s=30)
                client.finish(message)
                finished.add(message.id)
            client.send(b"CLS\n")
            while client.read_beyond_heartbeats(30)[1] != b"CLOSE_WAIT":
                pass

    with EngineProcess(tmp_path / "data", options=["--sync=always"]) as server:
        server.http("POST", "/topic/create?topic=orders")
        server.http("POST", "/channel/create?topic=orders&channel=billing")
        for _ in range(2):
            with NsqSocket(server.tcp_port) as producer:
                producer.send(b"MPUB orders\n" + sized(mpub_body([b"%d" % number for number in range(600)])))
                producer.expect_ok()
            consumers = [threading.Thread(target=consume, args=(server.tcp_port,)) for _ in range(4)]
            for consumer in consumers:
                consumer.start()
            for consumer in consumers:
                consumer.join()
            server.kill9()
            server.start()
            depth = int(server.channel_stats("orders", "billing")["depth"])
            with NsqSocket(server.tcp_port) as client:
                client.subscribe("orders", "billing", rdy=2_500)
                found = [client.read_message(timeout_s=30) for _ in range(depth)]
                for message in found:
                    client.finish(message)
                client.send(b"CLS\n")
                assert client.read_response() == b"CLOSE_WAIT"
            assert not finished & {message.id for message in found}
            assert len(found) == 200
            finished.update(message.id for message in found)
        assert len(finished) == 1_200


def test_keys_are_found_again_after_a_kill_and_without_their_index(tmp_path: Path) -> None:
    with EngineProcess(tmp_path / "data", options=["--sync=always"]) as server:

        def find(key: str) -> dict[str, object]:
            found = json.loads(server.http("GET", f"/topic/messages?topic=t&key={key}&limit=1000"))
            assert isinstance(found, dict)
            return found

        def offsets(key: str) -> list[int]:
            return [one["offset"] for one in find(key)["messages"]]

        server.http("POST", "/topic/create?topic=t&storage=log")
        server.http("POST", "/channel/create?topic=t&channel=one")
        for batch in range(80):
            keys = [b"hot", *(b"order-%d" % number for number in range(batch * 999, batch * 999 + 999))]
            body = encode_batch(keys, keys)
            server.http("POST", f"/log/write?topic=t&batch_key={batch + 1:032x}", body)
        hot = [batch * 1_000 for batch in reversed(range(80))]
        assert offsets("hot") == hot
        files = tmp_path / "data" / "log" / "keys"
        wait_for("files of the first keys", lambda: list(files.glob("*/*.keys")))
        for is_index_gone in (False, True):
            server.kill9()
            if is_index_gone:
                shutil.rmtree(files)
            server.start()
            wait_for("all keys are indexed", lambda: find("none")["not_indexed_count"] == 0)
            assert offsets("hot") == hot
            for number in (0, 998, 999, 40_000, 79_919):
                assert offsets(f"order-{number}") == [number // 999 * 1_000 + 1 + number % 999]
            assert offsets("order-79920") == []
