"""IDENTIFY: what is negotiated, what is refused, in which words."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.nsq_socket import sized
from tests.support.processes.running_engine import RunningEngine

StartEngine = Callable[..., RunningEngine]


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


def test_values_in_range_are_taken(engine: RunningEngine) -> None:
    fields: dict[str, Any]
    for fields in (
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
    ):
        assert engine.client().identify(**fields) == b"OK", fields


def test_values_out_of_range_are_refused_and_the_connection_closes(engine: RunningEngine) -> None:
    for fields, error in (
        ({"heartbeat_interval": 300_001}, "heartbeat interval (300001)"),
        ({"heartbeat_interval": 999}, "heartbeat interval (999)"),
        ({"heartbeat_interval": -2}, "heartbeat interval (-2)"),
        ({"output_buffer_size": 524_289}, "output buffer size (524289)"),
        ({"output_buffer_size": 63}, "output buffer size (63)"),
        ({"output_buffer_timeout": 30_001}, "output buffer timeout (30001)"),
        ({"output_buffer_timeout": 24}, "output buffer timeout (24)"),
        ({"msg_timeout": 999}, "msg timeout (999)"),
        ({"msg_timeout": 900_001}, "msg timeout (900001)"),
        ({"sample_rate": 100}, "sample rate (100)"),
        ({"sample_rate": -1}, "sample rate (-1)"),
    ):
        client = engine.client()
        client.send(b"IDENTIFY\n" + sized(json.dumps(fields).encode()))
        assert client.read_error() == f"E_BAD_BODY IDENTIFY {error} is invalid"
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
