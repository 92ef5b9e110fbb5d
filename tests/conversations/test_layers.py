"""TLS, snappy, deflate and samples: what IDENTIFY agrees on, the OK inside each layer, and what is refused."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.certificates import Certificates
from tests.support.layered_socket import LayeredSocket
from tests.support.nsq_socket import mpub_body, sized
from tests.support.processes.running_engine import RunningEngine
from tests.support.waiting import wait_for

StartEngine = Callable[..., RunningEngine]

COMPRESSIBLE = b"a line that repeats itself, " * 400


@pytest.fixture
def secured(start_engine: StartEngine, certificates: Certificates) -> RunningEngine:
    """An engine with a certificate."""
    return start_engine(**server_options(certificates))


def server_options(certificates: Certificates) -> dict[str, str]:
    pair = certificates.server
    return {"tls_cert": str(pair.certificate), "tls_key": str(pair.key), "https_address": "127.0.0.1:0"}


def talk(client: LayeredSocket, topic: str) -> None:
    """Publish and consume inside the layers, bodies of many blocks and records among them."""
    bodies = [b"short", COMPRESSIBLE, bytes(700_000)]
    client.publish(topic, bodies[0])
    client.send(f"MPUB {topic}\n".encode() + sized(mpub_body(bodies[1:])))
    client.expect_ok()
    client.subscribe(topic, "c", rdy=len(bodies))
    found = [client.read_message() for _ in bodies]
    assert [message.body for message in found] == bodies
    for message in found:
        client.finish(message)
    client.expect_open()


def client_stats(engine: RunningEngine, topic: str) -> dict[str, Any]:
    found: dict[str, Any] = engine.channel_stats(topic, "c")["clients"][0]
    return found


LAYERS = [
    {"snappy": True},
    {"deflate": True, "deflate_level": 6},
    {"deflate": True},
    {"tls": True},
    {"tls": True, "snappy": True},
    {"tls": True, "deflate": True, "deflate_level": 1},
]


@pytest.mark.parametrize("wanted", LAYERS, ids=str)
def test_a_client_publishes_and_consumes_inside_the_layers(
    secured: RunningEngine, certificates: Certificates, wanted: dict[str, Any]
) -> None:
    fields = dict(wanted)
    context = certificates.client_context() if fields.pop("tls", False) else None
    client = secured.layered()
    answer = client.negotiate(context, **fields)
    assert answer["tls_v1"] is (context is not None)
    assert (answer["snappy"], answer["deflate"]) == (fields.get("snappy", False), fields.get("deflate", False))
    assert answer["deflate_level"] == fields.get("deflate_level", 6)
    talk(client, "t")
    if context is None:
        assert client.received_bytes < 100_000, "it came uncompressed"
    stats = client_stats(secured, "t")
    assert (stats["tls"], stats["snappy"], stats["deflate"]) == (
        context is not None,
        fields.get("snappy", False),
        fields.get("deflate", False),
    )
    if context is not None:
        cipher = client.tls.cipher()
        assert cipher is not None
        assert (stats["tls_cipher_suite"], stats["tls_version"]) == (cipher[0], "TLS1.3")
        assert stats["tls_negotiated_protocol_is_mutual"] is True


def test_a_server_without_a_certificate_offers_no_tls(engine: RunningEngine) -> None:
    client = engine.layered()
    assert client.ask_for(tls_v1=True)["tls_v1"] is False
    client.expect_open()


def test_compressions_can_be_switched_off(start_engine: StartEngine) -> None:
    engine = start_engine(snappy=False, deflate=False)
    answer = engine.layered().ask_for(snappy=True, deflate=True)
    assert answer["snappy"] is answer["deflate"] is False


def test_without_feature_negotiation_nothing_is_put_on(secured: RunningEngine) -> None:
    client = secured.client()
    assert client.identify(tls_v1=True, snappy=True) == b"OK"
    client.expect_open()


@pytest.mark.parametrize(("asked", "level"), [(9, 4), (3, 3), (0, 4), (-1, 4)])
def test_the_deflate_level_is_at_most_the_servers(start_engine: StartEngine, asked: int, level: int) -> None:
    client = start_engine(max_deflate_level=4).layered()
    answer = client.negotiate(deflate=True, deflate_level=asked)
    assert (answer["deflate_level"], answer["max_deflate_level"]) == (level, 4)
    talk(client, "t")


def test_a_second_identify_keeps_the_layers_and_puts_on_no_others(engine: RunningEngine) -> None:
    client = engine.layered()
    client.negotiate(snappy=True)
    assert client.ask_for(client_id="again")["snappy"] is False
    client.publish("t", b"still inside snappy")
    client.send(b"IDENTIFY\n" + sized(b'{"feature_negotiation":true,"deflate":true}'))
    assert client.read_error() == "E_INVALID cannot IDENTIFY in current state"


def test_tls_waits_for_the_answers_before_identify(secured: RunningEngine, certificates: Certificates) -> None:
    client = secured.layered()
    client.send(b"PUB t\n" + sized(b"in plain"))
    client.send(b"IDENTIFY\n" + sized(b'{"feature_negotiation":true,"tls_v1":true}'))
    client.expect_ok()
    assert b'"tls_v1":true' in client.read_response()
    client.begin_tls(certificates.client_context())
    client.expect_ok()
    talk(client, "in-tls")


def test_what_came_in_plain_behind_identify_is_no_command_inside_tls(secured: RunningEngine) -> None:
    """An attacker who adds to the plain part may not have it done under the client's name."""
    client = secured.layered()
    client.send(b"IDENTIFY\n" + sized(b'{"feature_negotiation":true,"tls_v1":true}') + b"PUB t\n" + sized(b"injected"))
    assert b'"tls_v1":true' in client.read_response()
    assert client.read_error().startswith("E_IDENTIFY_FAILED IDENTIFY failed TLS handshake failed: ")
    client.expect_closed()
    assert not [topic for topic in secured.stats()["topics"] if topic["topic_name"] == "t"]


def test_plain_bytes_where_a_handshake_is_due_end_the_connection(secured: RunningEngine) -> None:
    client = secured.layered()
    assert client.ask_for(tls_v1=True)["tls_v1"] is True
    client.send(b"SUB t c\n")
    assert client.read_error() == "E_IDENTIFY_FAILED IDENTIFY failed TLS handshake failed: wrong version number"
    client.expect_closed()


@pytest.mark.parametrize("compression", ["snappy", "deflate"])
def test_plain_bytes_inside_a_compression_end_the_connection(engine: RunningEngine, compression: str) -> None:
    client = engine.layered()
    client.negotiate(**{compression: True})
    client.send_below(b"PUB t\n" + sized(b"in plain"))
    client.expect_closed()


COMMANDS = [b"SUB t c\n", b"PUB t\n" + sized(b"x"), b"NOP\n", b"RDY 1\n", b"CLS\n", b"ASDF\n", b"AUTH\n" + sized(b"s")]


@pytest.mark.parametrize("required", ["true", "tcp-https"])
def test_where_tls_is_required_every_command_but_identify_needs_it(
    start_engine: StartEngine, certificates: Certificates, required: str
) -> None:
    engine = start_engine(**server_options(certificates), tls_required=required)
    for command in COMMANDS:
        client = engine.layered()
        client.send(command)
        verb = command.split()[0].decode()
        assert client.read_error() == f"E_INVALID cannot {verb} in current state (TLS required)"
        client.expect_closed()


def test_inside_tls_that_is_required_everything_goes_on(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**server_options(certificates), tls_required="true")
    client = engine.layered()
    client.negotiate(certificates.client_context())
    client.send(b"PUB t\n" + sized(b"x"))
    client.expect_ok()


@pytest.mark.parametrize("policy", ["require", "require-verify"])
def test_a_client_auth_policy_lets_in_whom_the_authority_has_certified(
    start_engine: StartEngine, certificates: Certificates, policy: str
) -> None:
    authority = str(certificates.authority.certificate)
    engine = start_engine(**server_options(certificates), tls_client_auth_policy=policy, tls_root_ca_file=authority)
    plain = engine.layered()
    plain.send(b"SUB t c\n")
    assert "(TLS required)" in plain.read_error()
    good = engine.layered()
    good.negotiate(certificates.client_context(certificates.client))
    talk(good, "t")
    for pair in (None, certificates.stranger_client):
        # In TLS 1.3 the client learns of it with what it reads next.
        with pytest.raises((OSError, EOFError)):
            engine.layered().negotiate(certificates.client_context(pair))


@pytest.mark.parametrize(("version", "is_taken"), [(ssl.TLSVersion.TLSv1_2, False), (ssl.TLSVersion.TLSv1_3, True)])
def test_the_oldest_version_is_the_servers(
    start_engine: StartEngine, certificates: Certificates, version: ssl.TLSVersion, is_taken: bool
) -> None:
    engine = start_engine(**server_options(certificates), tls_min_version="tls1.3")
    context = certificates.client_context()
    context.maximum_version = version
    client = engine.layered()
    if is_taken:
        client.negotiate(context)
        talk(client, "t")
    else:
        with pytest.raises(ssl.SSLError):
            client.negotiate(context)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1 is deprecated")
def test_tls_1_0_is_spoken_where_it_is_asked_for(start_engine: StartEngine, certificates: Certificates) -> None:
    engine = start_engine(**server_options(certificates), tls_min_version="tls1.0")
    context = certificates.client_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    client = engine.layered()
    client.negotiate(context)
    talk(client, "t")
    stats = client_stats(engine, "t")
    assert stats["tls_version"] == "TLS1.0"
    assert stats["tls_cipher_suite"] == "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"


def test_the_end_of_tls_ends_the_connection(secured: RunningEngine, certificates: Certificates) -> None:
    client = secured.layered()
    client.negotiate(certificates.client_context())
    client.publish("t", b"x")
    client.subscribe("t", "c")
    client.tls.unwrap()
    wait_for("the end", lambda: secured.channel_stats("t", "c")["client_count"] == 0)


def test_a_sample_is_as_large_as_asked_for_and_the_rest_is_gone_for_the_channel(engine: RunningEngine) -> None:
    client = engine.layered()
    assert client.ask_for(sample_rate=42)["sample_rate"] == 42
    client.send(b"MPUB t\n" + sized(mpub_body([b"m%d" % number for number in range(2_000)])))
    client.expect_ok()
    client.subscribe("t", "c", rdy=2_000)
    bodies = set()
    while True:
        channel = engine.channel_stats("t", "c")
        if channel["depth"] == 0 and len(bodies) == channel["in_flight_count"]:
            break
        while len(bodies) < channel["in_flight_count"]:
            bodies.add(client.read_message().body)
    assert abs(len(bodies) / 2_000 - 0.42) < 0.05
    assert client_stats(engine, "t")["sample_rate"] == 42
    assert client_stats(engine, "t")["message_count"] == len(bodies)
    client.close()
    # What it had comes again; what lost the draw does not.
    other = engine.client()
    other.subscribe("t", "c", rdy=2_000)
    assert {other.read_message().body for _ in bodies} == bodies
    assert engine.channel_stats("t", "c")["depth"] == 0


def test_what_lost_the_draw_stays_gone_after_a_kill(engine: RunningEngine, tmp_path: Path) -> None:
    client = engine.layered()
    client.ask_for(sample_rate=20)
    client.send(b"MPUB t\n" + sized(mpub_body([b"m%d" % number for number in range(500)])))
    client.expect_ok()
    client.subscribe("t", "c", rdy=500)
    wait_for("the draw of all", lambda: engine.channel_stats("t", "c")["depth"] == 0)
    kept = engine.channel_stats("t", "c")["in_flight_count"]
    assert 0 < kept < 250
    engine.copy_as_killed(tmp_path / "killed")
    with RunningEngine(tmp_path / "killed") as again:
        channel = again.channel_stats("t", "c")
        assert channel["depth"] + channel["in_flight_count"] == kept
