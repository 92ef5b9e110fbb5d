"""nsqd's HTTP API: publishing, acts, stats and errors, as nsqd's own tests ask for them."""

import struct

import pytest

from tests.conformance.conftest import StartNsq
from tests.conformance.server import HttpAnswer, NsqServer, new_name, running
from tests.support.nsq_socket import mpub_body
from tests.support.waiting import wait_for

NSQ = ("x-nsq-content-type", "nsq; version=1.0")


def error(answer: HttpAnswer) -> tuple[int, bytes]:
    """Status and body; an error is JSON with nsqd's header."""
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    assert NSQ in answer.headers.items()
    return answer.status, answer.body


def word(text: str) -> bytes:
    return b'{"message":"%b"}' % text.encode()


def test_pub(nsq: NsqServer, topic: str) -> None:
    answer = nsq.http("POST", f"/pub?topic={topic}", b"test message")
    assert (answer.status, answer.body) == (200, b"OK")
    assert nsq.topic(topic)["depth"] == 1
    assert nsq.topic(topic)["message_bytes"] == len("test message")


@pytest.mark.parametrize(
    "body", [b"one\ntwo\nthree\nfour", b"one\ntwo\nthree\nfour\n", b"\n\none\ntwo\n\n\nthree\nfour\n\n"]
)
def test_mpub_takes_lines_and_drops_empty_ones(nsq: NsqServer, topic: str, body: bytes) -> None:
    assert nsq.http("POST", f"/mpub?topic={topic}", body).body == b"OK"
    assert nsq.topic(topic)["depth"] == 4


@pytest.mark.parametrize("flag", ["true", "1", "non_bool"])
def test_mpub_binary(nsq: NsqServer, topic: str, flag: str) -> None:
    assert nsq.http("POST", f"/mpub?topic={topic}&binary={flag}", mpub_body([b"x\ny"] * 5)).body == b"OK"
    assert nsq.topic(topic)["depth"] == 5


def test_pub_deferred(nsq: NsqServer, topic: str) -> None:
    nsq.http("POST", f"/topic/create?topic={topic}")
    nsq.http("POST", f"/channel/create?topic={topic}&channel=c")
    assert nsq.http("POST", f"/pub?topic={topic}&defer=60000", b"later").body == b"OK"
    wait_for("the deferral", lambda: nsq.channel(topic, "c")["deferred_count"] == 1)


@pytest.mark.parametrize(
    ("target", "body", "status", "code"),
    [
        ("/pub?topic={}", b"", 400, "MSG_EMPTY"),
        ("/pub", b"x", 400, "MISSING_ARG_TOPIC"),
        ("/pub?topic=$", b"x", 400, "INVALID_TOPIC"),
        ("/pub?topic={}&defer=-1", b"x", 400, "INVALID_DEFER"),
        ("/pub?topic={}&defer=3600001", b"x", 400, "INVALID_DEFER"),
        ("/pub?topic={}&defer=soon", b"x", 400, "INVALID_DEFER"),
        ("/pub?topic={}", b"x" * (1 << 21), 413, "MSG_TOO_BIG"),
        ("/mpub", b"x", 400, "MISSING_ARG_TOPIC"),
        ("/mpub?topic=a%20b", b"x", 400, "INVALID_TOPIC"),
        ("/mpub?topic={}", b"x" * (1 << 21), 413, "MSG_TOO_BIG"),
        ("/mpub?topic={}", b"x\n" * (3 << 20), 413, "BODY_TOO_BIG"),
        ("/mpub?topic={}&binary=true", struct.pack(">i", 0), 413, "BAD_BODY"),
        ("/mpub?topic={}&binary=true", struct.pack(">i", -1), 413, "BAD_BODY"),
        ("/mpub?topic={}&binary=true", struct.pack(">ii", 1, 0), 413, "BAD_MESSAGE"),
        ("/mpub?topic={}&binary=true", struct.pack(">ii", 1, 5) + b"abc", 413, "BAD_MESSAGE"),
        ("/topic/create", b"", 400, "MISSING_ARG_TOPIC"),
        ("/topic/create?topic=$", b"", 400, "INVALID_TOPIC"),
        ("/topic/delete", b"", 400, "MISSING_ARG_TOPIC"),
        ("/topic/delete?topic={}", b"", 404, "TOPIC_NOT_FOUND"),
        ("/topic/empty", b"", 400, "MISSING_ARG_TOPIC"),
        ("/topic/empty?topic=$", b"", 400, "INVALID_TOPIC"),
        ("/topic/empty?topic={}", b"", 404, "TOPIC_NOT_FOUND"),
        ("/topic/pause?topic={}", b"", 404, "TOPIC_NOT_FOUND"),
        ("/topic/unpause?topic={}", b"", 404, "TOPIC_NOT_FOUND"),
        ("/channel/create", b"", 400, "MISSING_ARG_TOPIC"),
        ("/channel/create?topic={}", b"", 400, "MISSING_ARG_CHANNEL"),
        ("/channel/create?topic=$&channel=c", b"", 400, "INVALID_ARG_TOPIC"),
        ("/channel/create?topic={}&channel=$", b"", 400, "INVALID_ARG_CHANNEL"),
        ("/channel/create?topic={}&channel=c", b"", 404, "TOPIC_NOT_FOUND"),
        ("/channel/delete?topic={}&channel=c", b"", 404, "TOPIC_NOT_FOUND"),
        ("/channel/empty", b"", 400, "MISSING_ARG_TOPIC"),
        ("/channel/empty?topic={}", b"", 400, "MISSING_ARG_CHANNEL"),
        ("/channel/empty?topic={}&channel=c", b"", 404, "TOPIC_NOT_FOUND"),
        ("/channel/pause?topic={}&channel=c", b"", 404, "TOPIC_NOT_FOUND"),
        ("/channel/unpause?topic={}&channel=c", b"", 404, "TOPIC_NOT_FOUND"),
        ("/pub?topic={}&bad=%zz", b"x", 400, "INVALID_REQUEST"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_refused_has_exactly_nsqds_body(
    nsq: NsqServer, topic: str, target: str, body: bytes, status: int, code: str
) -> None:
    assert error(nsq.http("POST", target.format(topic), body)) == (status, word(code))
    if "%20" not in target:
        assert nsq.stats(f"topic={topic}")["topics"] in (None, [])


@pytest.mark.parametrize("act", ["delete", "empty", "pause", "unpause"])
def test_a_channel_that_is_not_there(nsq: NsqServer, topic: str, act: str) -> None:
    nsq.http("POST", f"/topic/create?topic={topic}")
    answer = nsq.http("POST", f"/channel/{act}?topic={topic}&channel=c")
    assert error(answer) == (404, word("CHANNEL_NOT_FOUND"))


def test_the_life_of_a_topic_and_a_channel(nsq: NsqServer, topic: str) -> None:
    def done(path: str) -> None:
        answer = nsq.http("POST", path)
        assert (answer.status, answer.body) == (200, b"")
        assert NSQ in answer.headers.items()

    done(f"/topic/create?topic={topic}")
    done(f"/topic/create?topic={topic}")
    done(f"/channel/create?topic={topic}&channel=c")
    done(f"/topic/pause?topic={topic}")
    assert nsq.topic(topic)["paused"] is True
    done(f"/topic/unpause?topic={topic}")
    assert nsq.topic(topic)["paused"] is False
    done(f"/channel/pause?topic={topic}&channel=c")
    assert nsq.channel(topic, "c")["paused"] is True
    done(f"/channel/unpause?topic={topic}&channel=c")
    assert nsq.channel(topic, "c")["paused"] is False
    done(f"/channel/delete?topic={topic}&channel=c")
    assert nsq.topic(topic)["channels"] == []
    done(f"/topic/delete?topic={topic}")
    assert nsq.stats(f"topic={topic}")["topics"] is None


def test_emptying(nsq: NsqServer, topic: str) -> None:
    nsq.http("POST", f"/mpub?topic={topic}", b"a\nb")
    assert nsq.topic(topic)["depth"] == 2
    assert nsq.http("POST", f"/topic/empty?topic={topic}").status == 200
    assert nsq.topic(topic)["depth"] == 0
    nsq.http("POST", f"/channel/create?topic={topic}&channel=c")
    nsq.http("POST", f"/mpub?topic={topic}", b"a\nb")
    wait_for("both in the channel", lambda: nsq.channel(topic, "c")["depth"] == 2)
    assert nsq.http("POST", f"/channel/empty?topic={topic}&channel=c").status == 200
    assert nsq.channel(topic, "c")["depth"] == 0


def test_pausing_outlives_a_restart(topic: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("paused")
    with running({}, place) as nsq:
        for path in ("/topic/create", "/topic/pause"):
            assert nsq.http("POST", f"{path}?topic={topic}").status == 200
        for path in ("/channel/create", "/channel/pause"):
            assert nsq.http("POST", f"{path}?topic={topic}&channel=c").status == 200
    with running({}, place) as nsq:
        assert nsq.topic(topic)["paused"] is True
        assert nsq.channel(topic, "c")["paused"] is True


def test_stats_of_clients(nsq: NsqServer, topic: str) -> None:
    consumer, producer = nsq.client(), nsq.client()
    consumer.identify(client_id="id", hostname="host", user_agent="nsq_user_agent/1.0")
    consumer.subscribe(topic, "c", rdy=3)
    consumer.expect_open()
    producer.publish(topic, b"x")
    [client] = nsq.channel(topic, "c")["clients"]
    assert (client["client_id"], client["hostname"], client["user_agent"]) == ("id", "host", "nsq_user_agent/1.0")
    assert (client["version"], client["state"], client["ready_count"]) == ("V2", 3, 3)
    shown = [one for one in nsq.stats()["producers"] if {"topic": topic, "count": 1} in one["pub_counts"]]
    assert len(shown) == 1
    without = nsq.stats(f"topic={topic}&include_clients=false&include_mem=false")
    assert "memory" not in without
    [channel] = without["topics"][0]["channels"]
    assert (channel["clients"], channel["client_count"]) == (None, 1)


def test_stats_json_begins_as_nsqds(start_nsq: StartNsq) -> None:
    nsq = start_nsq()
    answer = nsq.http("GET", "/stats?format=json")
    assert list(answer.json)[:6] == ["version", "health", "start_time", "topics", "memory", "producers"]
    assert (answer.json["health"], answer.json["topics"]) == ("OK", [])
    assert NSQ in answer.headers.items()


def test_stats_text(nsq: NsqServer, topic: str) -> None:
    nsq.http("POST", f"/pub?topic={topic}", b"x")
    nsq.http("POST", f"/channel/create?topic={topic}&channel=c")
    text = nsq.http("GET", f"/stats?topic={topic}").body.decode()
    for part in (
        "nsqd v",
        "start_time ",
        "uptime ",
        "\nHealth: OK\n",
        "\nMemory:\n",
        "\nTopics:\n",
        "\nProducers: None\n",
    ):
        assert part in text
    assert f"   [{topic}" in text
    assert "      [c " in text


def test_info_and_ping(nsq: NsqServer) -> None:
    info = nsq.http("GET", "/info").json
    assert {
        "version",
        "broadcast_address",
        "hostname",
        "http_port",
        "tcp_port",
        "start_time",
        "max_heartbeat_interval",
        "max_output_buffer_size",
        "max_output_buffer_timeout",
        "max_deflate_level",
    } <= info.keys()
    assert (info["tcp_port"], info["http_port"]) == (nsq.tcp_port, nsq.http_port)
    answer = nsq.http("GET", "/ping")
    assert (answer.status, answer.body) == (200, b"OK")


def test_config(nsq: NsqServer) -> None:
    assert nsq.http("GET", "/config/nsqlookupd_tcp_addresses").json == []
    assert error(nsq.http("GET", "/config/none")) == (400, word("INVALID_OPTION"))
    assert error(nsq.http("PUT", "/config/log_level", b"loud")) == (400, word("INVALID_VALUE"))
    assert error(nsq.http("PUT", "/config/log_level", b"")) == (413, word("INVALID_VALUE"))
    before = nsq.http("GET", "/config/log_level").body
    assert nsq.http("PUT", "/config/log_level", b"debug").status == 200
    assert nsq.http("GET", "/config/log_level").body == b"1"
    assert nsq.http("PUT", "/config/log_level", b"info").body == before


def test_methods_and_paths(nsq: NsqServer) -> None:
    assert error(nsq.http("POST", "/stats")) == (405, word("METHOD_NOT_ALLOWED"))
    assert error(nsq.http("GET", f"/{new_name()}")) == (404, word("NOT_FOUND"))


def test_the_queue_survives_a_restart(tmp_path_factory: pytest.TempPathFactory, topic: str) -> None:
    """nsqd's TestStartup: of 300 messages, 150 are read before the restart and the others behind it."""
    place = tmp_path_factory.mktemp("startup")
    flags = {"mem-queue-size": "100"}

    def read(nsq: NsqServer, count: int) -> list[bytes]:
        consumer = nsq.client()
        consumer.subscribe(topic, "c", rdy=1)
        bodies = []
        for _ in range(count):
            message = consumer.read_message()
            bodies.append(message.body)
            consumer.finish(message)
        consumer.send(b"RDY 0\nCLS\n")
        while consumer.read_frame()[1] != b"CLOSE_WAIT":
            pass
        consumer.close()
        return bodies

    bodies = [b"%d" % number for number in range(300)]
    with running(flags, place) as nsq:
        nsq.client().publish(topic, *bodies)
        found = read(nsq, 150)
    with running(flags, place) as nsq:
        wait_for("what is left", lambda: nsq.channel(topic, "c")["depth"] >= 149)
        assert nsq.topic(topic)["depth"] == 0
        left = nsq.channel(topic, "c")["depth"]
        found += read(nsq, left)
        wait_for("nothing to be left", lambda: nsq.channel(topic, "c")["depth"] == 0)
    assert set(found) == set(bodies)
