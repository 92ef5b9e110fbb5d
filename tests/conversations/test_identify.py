"""IDENTIFY: what is negotiated, what is refused, in which words."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.nsq_socket import sized
from tests.support.processes.running_engine import RunningEngine

StartEngine = Callable[..., RunningEngine]


def test_without_negotiation_the_answer_is_ok(engine: RunningEngine) -> None:
    assert engine.client().identify(client_id="a", hostname="b") == b"OK"


def test_negotiation_tells_limits_and_what_is_off(start_engine: StartEngine) -> None:
    client = start_engine(max_rdy_count=1234, msg_timeout_ms=5_000, max_msg_timeout_ms=60_000).client()
    answer = client.identify(
        feature_negotiation=True, tls_v1=True, snappy=False, deflate=False, deflate_level=6, sample_rate=0
    )
    assert answer["max_rdy_count"] == 1234
    assert answer["msg_timeout"] == 5_000
    assert answer["max_msg_timeout"] == 60_000
    assert answer["tls_v1"] is answer["snappy"] is answer["deflate"] is answer["auth_required"] is False
    assert answer["sample_rate"] == 0
    assert answer["version"]
    assert {"deflate_level", "max_deflate_level", "output_buffer_size", "output_buffer_timeout"} <= answer.keys()
    client.expect_open()


def test_negotiation_echoes_the_buffering_asked_for(engine: RunningEngine) -> None:
    answer = engine.client().identify(
        feature_negotiation=True, output_buffer_size=4_096, output_buffer_timeout=75, msg_timeout=2_000
    )
    assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == (4_096, 75)
    assert answer["msg_timeout"] == 2_000


@pytest.mark.parametrize(
    "fields",
    [
        {"heartbeat_interval": -1},
        {"heartbeat_interval": 0},
        {"heartbeat_interval": 1_000},
        {"heartbeat_interval": 60_000},
        {"output_buffer_size": -1},
        {"output_buffer_size": 0},
        {"output_buffer_size": 64},
        {"output_buffer_size": 65_536},
        {"output_buffer_timeout": -1},
        {"output_buffer_timeout": 0},
        {"output_buffer_timeout": 25},
        {"output_buffer_timeout": 30_000},
        {"msg_timeout": 0},
        {"msg_timeout": 1_000},
        {"msg_timeout": 900_000},
        {"sample_rate": 0},
    ],
    ids=str,
)
def test_values_in_range_are_taken(engine: RunningEngine, fields: dict[str, Any]) -> None:
    assert engine.client().identify(**fields) == b"OK"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"heartbeat_interval": 300_001}, "IDENTIFY heartbeat interval (300001) is invalid"),
        ({"heartbeat_interval": 999}, "IDENTIFY heartbeat interval (999) is invalid"),
        ({"heartbeat_interval": -2}, "IDENTIFY heartbeat interval (-2) is invalid"),
        ({"output_buffer_size": 524_289}, "IDENTIFY output buffer size (524289) is invalid"),
        ({"output_buffer_size": 63}, "IDENTIFY output buffer size (63) is invalid"),
        ({"output_buffer_timeout": 30_001}, "IDENTIFY output buffer timeout (30001) is invalid"),
        ({"output_buffer_timeout": 24}, "IDENTIFY output buffer timeout (24) is invalid"),
        ({"msg_timeout": 999}, "IDENTIFY msg timeout (999) is invalid"),
        ({"msg_timeout": 900_001}, "IDENTIFY msg timeout (900001) is invalid"),
        ({"sample_rate": 100}, "IDENTIFY sample rate (100) is invalid"),
        ({"sample_rate": -1}, "IDENTIFY sample rate (-1) is invalid"),
    ],
    ids=str,
)
def test_values_out_of_range_are_refused_and_the_connection_closes(
    engine: RunningEngine, fields: dict[str, Any], error: str
) -> None:
    client = engine.client()
    with pytest.raises(AssertionError) as refused:
        client.identify(**fields)
    assert f"E_BAD_BODY {error}" in str(refused.value)
    client.expect_closed()


def test_limits_of_the_options_are_the_limits(start_engine: StartEngine) -> None:
    engine = start_engine(
        max_heartbeat_interval_ms=5_000, max_output_buffer_timeout_ms=1_000, min_output_buffer_timeout_ms=50
    )
    assert engine.client().identify(output_buffer_timeout=50) == b"OK"
    client = engine.client()
    client.send(b"IDENTIFY\n" + sized(b'{"output_buffer_timeout": 49}'))
    assert client.read_error() == "E_BAD_BODY IDENTIFY output buffer timeout (49) is invalid"
    client.expect_closed()
    assert engine.client().identify(heartbeat_interval=5_000, output_buffer_timeout=1_000) == b"OK"
    client = engine.client()
    client.send(b"IDENTIFY\n" + sized(b'{"heartbeat_interval": 5001}'))
    assert client.read_error() == "E_BAD_BODY IDENTIFY heartbeat interval (5001) is invalid"
    client.expect_closed()
    client = engine.client()
    client.send(b"IDENTIFY\n" + sized(b'{"output_buffer_timeout": 1001}'))
    assert client.read_error() == "E_BAD_BODY IDENTIFY output buffer timeout (1001) is invalid"
    client.expect_closed()


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (sized(b"not json"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b"[]"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b'{"msg_timeout": "soon"}'), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b"\xef\xbb\xbf{}"), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b'{"msg_timeout": NaN}'), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b'{"msg_timeout": 9223372036854775808}'), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b'{"sample_rate": 2147483648}'), "E_BAD_BODY IDENTIFY failed to decode JSON body"),
        (sized(b""), "E_BAD_BODY IDENTIFY invalid body size 0"),
        (b"\xff\xff\xff\xff", "E_BAD_BODY IDENTIFY invalid body size -1"),
        (b"\x00\x50\x00\x01", "E_BAD_BODY IDENTIFY body too big 5242881 > 5242880"),
    ],
    ids=str,
)
def test_bodies_that_make_no_sense_are_refused(engine: RunningEngine, sent: bytes, error: str) -> None:
    client = engine.client()
    client.send(b"IDENTIFY\n" + sent)
    assert client.read_error() == error
    client.expect_closed()


def test_bodies_are_read_as_go_reads_them(engine: RunningEngine) -> None:
    for body in (
        b'{"Feature_Negotiation": true, "MSG_TIMEOUT": 2000, "output_buffer_size": 4096}',
        b'{"feature_negotiation": false, "feature_Negotiation": true, "msg_timeout": 2000, "msg_timeout": null}',
        b'{"client_id": "\xff\xfe", "feature_negotiation": true, "msg_timeout": 2000}',
    ):
        client = engine.client()
        client.send(b"IDENTIFY\n" + sized(body))
        answer = json.loads(client.read_response())
        assert answer["msg_timeout"] == 2_000
        client.expect_open()
    client = engine.client()
    client.send(b"IDENTIFY\n" + sized(b"null"))
    assert client.read_response() == b"OK"
    client.expect_open()


def test_names_in_bytes_that_are_not_utf_8_are_shown_with_replacements(engine: RunningEngine) -> None:
    client = engine.client()
    client.send(b"IDENTIFY\n" + sized(b'{"client_id": "\xff", "hostname": "\\ud800", "user_agent": "a\xe2\x82"}'))
    assert client.read_response() == b"OK"
    client.subscribe("t", "c")
    [shown] = engine.channel_stats("t", "c")["clients"]
    assert (shown["client_id"], shown["hostname"], shown["user_agent"]) == ("\ufffd", "\ufffd", "a\ufffd\ufffd")


def test_a_client_that_gives_no_names_has_none(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c")
    [shown] = engine.channel_stats("t", "c")["clients"]
    assert (shown["client_id"], shown["hostname"]) == ("127.0.0.1", "127.0.0.1")  # before any IDENTIFY
    client = engine.client()
    client.identify(short_id="old", long_id="older")
    client.subscribe("t", "other")
    [shown] = engine.channel_stats("t", "other")["clients"]
    assert (shown["client_id"], shown["hostname"]) == ("", "")


def test_no_output_buffer_is_answered_as_size_one_and_no_timeout(engine: RunningEngine) -> None:
    answer = engine.client().identify(feature_negotiation=True, output_buffer_size=-1, output_buffer_timeout=75)
    assert (answer["output_buffer_size"], answer["output_buffer_timeout"]) == (1, 0)


def test_the_deflate_level_is_answered_as_six_where_none_is_agreed(engine: RunningEngine) -> None:
    assert engine.client().identify(feature_negotiation=True)["deflate_level"] == 6


def test_of_several_bad_values_the_first_in_nsqd_s_order_is_named(engine: RunningEngine) -> None:
    fields = {"msg_timeout": 1, "sample_rate": 100, "output_buffer_size": 1, "output_buffer_timeout": 1}
    fields["heartbeat_interval"] = 1
    for name in ("heartbeat_interval", "output_buffer_timeout", "output_buffer_size", "sample_rate", "msg_timeout"):
        client = engine.client()
        client.send(b"IDENTIFY\n" + sized(json.dumps(fields).encode()))
        assert client.read_error() == f"E_BAD_BODY IDENTIFY {name.replace('_', ' ')} ({fields[name]}) is invalid"
        client.expect_closed()
        del fields[name]


def test_unknown_fields_are_passed_over(engine: RunningEngine) -> None:
    assert engine.client().identify(short_id="old", favourite_colour="blue") == b"OK"


def test_identify_after_sub_is_refused(engine: RunningEngine) -> None:
    client = engine.client()
    client.subscribe("t", "c")
    client.send(b"IDENTIFY\n" + sized(b"{}"))
    assert client.read_error() == "E_INVALID cannot IDENTIFY in current state"
    client.expect_closed()


def test_auth_is_answered_as_disabled(engine: RunningEngine) -> None:
    client = engine.client()
    client.send(b"AUTH\n" + sized(b"secret"))
    assert client.read_error() == "E_AUTH_DISABLED AUTH disabled"
    client.expect_closed()


def test_user_agent_and_names_are_shown_in_stats(engine: RunningEngine) -> None:
    client = engine.client()
    client.identify(client_id="worker-7", hostname="box.example", user_agent="probe/1.0")
    client.subscribe("t", "c", rdy=3)
    client.expect_open()
    [shown] = engine.channel_stats("t", "c")["clients"]
    assert (shown["client_id"], shown["hostname"], shown["user_agent"]) == ("worker-7", "box.example", "probe/1.0")
    assert (shown["ready_count"], shown["state"], shown["version"]) == (3, 3, "V2")
