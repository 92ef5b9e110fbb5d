"""The real clients pynsq and gnsq over TLS, snappy and deflate: the server says that it is on, and so does the wire.

ansq is not among them: it asks for these features, and has none of them.
"""

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Iterator
from typing import Any

import nsq
import pytest

from tests.clients.gnsq_process import GnsqConsumer, GnsqPublisher
from tests.support.certificates import Certificates
from tests.support.processes.server import ServerProcess
from tests.support.processes.wire_tap import WireTap
from tests.support.waiting import TIMEOUT_S, wait_for, wait_for_async

pytestmark = pytest.mark.slow(reason="starts a real server and client programs")

# Each body says so of itself, so that it can be looked for on the wire; a quarter of its bytes would be too many.
BODIES = [f"earthquake {number}: ".encode() + b"the ground moved, " * 200 for number in range(50)]
PLAIN_BYTES = 2 * sum(map(len, BODIES))  # published and consumed

FEATURES = [
    {"tls_v1": True},
    {"snappy": True},
    {"deflate": True, "deflate_level": 6},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True, "deflate_level": 6},
]


@pytest.fixture(scope="module")
def server(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    options = [*certificates.server_options, "--no-pipeline"]
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", options=options) as running:
        yield running


def name_of(client: str, features: dict[str, Any]) -> str:
    return "_".join([client, *sorted(name for name, value in features.items() if value is True)])


def check_client(server: ServerProcess, topic: str, features: dict[str, Any]) -> None:
    """The consumer's row says what is on."""
    row = server.channel_stats(topic, "c")["clients"][0]
    for name, field in (("tls_v1", "tls"), ("snappy", "snappy"), ("deflate", "deflate")):
        assert row[field] is features.get(name, False), (name, row)
    if features.get("tls_v1"):
        assert row["tls_version"] in ("TLS1.2", "TLS1.3")
        assert row["tls_cipher_suite"].startswith("TLS_")


def check_wire(tap: WireTap, features: dict[str, Any]) -> None:
    """What crossed is encrypted, or compressed, as asked for."""
    crossed = bytes(tap.crossed)
    if features.get("tls_v1"):
        assert b"the ground moved" not in crossed
        assert b"MPUB" not in crossed
    if features.get("snappy") or features.get("deflate"):
        assert len(crossed) < PLAIN_BYTES / 4, f"{len(crossed)} of {PLAIN_BYTES} bytes crossed"
    else:
        assert len(crossed) > PLAIN_BYTES


@pytest.mark.parametrize("features", FEATURES, ids=lambda features: name_of("pynsq", features))
async def test_pynsq(server: ServerProcess, certificates: Certificates, features: dict[str, Any]) -> None:
    topic = name_of("pynsq", features)
    options = dict(features)
    if features.get("tls_v1"):
        options["tls_options"] = {
            "ca_certs": str(certificates.authority.certificate),
            "cert_reqs": ssl.CERT_REQUIRED,
            "ssl_version": ssl.PROTOCOL_TLS_CLIENT,
        }
    bodies: list[bytes] = []

    def handler(message: nsq.Message) -> bool:
        bodies.append(message.body)
        return True

    with WireTap(server.tcp_port) as tap:
        address = f"127.0.0.1:{tap.port}"
        writer = nsq.Writer([address], reconnect_interval=0.5, **options)
        reader = nsq.Reader(
            topic, "c", message_handler=handler, nsqd_tcp_addresses=[address], max_in_flight=50, **options
        )
        await wait_for_async("the writer's connection", lambda: writer.conns)
        for part in (BODIES[:1], BODIES[1:]):
            answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            writer.mpub(topic, part, callback=lambda _, data, done=answered: done.set_result(data))
            assert await asyncio.wait_for(answered, TIMEOUT_S) == b"OK"
        await wait_for_async("every message", lambda: len(bodies) >= len(BODIES))
        check_client(server, topic, features)
        reader.close()
        for connection in list(writer.conns.values()):
            connection.close()
    assert Counter(bodies) == Counter(BODIES)
    check_wire(tap, features)


# The server's side of each combination is pynsq's test; a gnsq takes seconds to start.
@pytest.mark.parametrize("features", [FEATURES[2], FEATURES[3]], ids=lambda features: name_of("gnsq", features))
def test_gnsq(server: ServerProcess, certificates: Certificates, features: dict[str, Any]) -> None:
    topic = name_of("gnsq", features)
    options: dict[str, Any] = dict(features)
    if features.get("tls_v1"):
        options["tls_options"] = {
            "ca_certs": str(certificates.authority.certificate),
            "cert_reqs": int(ssl.CERT_REQUIRED),
        }
    given = ("--features", json.dumps(options))
    with WireTap(server.tcp_port) as tap, GnsqConsumer(tap.port, topic, "c", *given) as consumer:
        with GnsqPublisher(tap.port, topic, BODIES, "--batch", 10, *given) as publisher:
            publisher.wait()
        assert publisher.acknowledged_count == len(BODIES)
        wait_for("every message", lambda: len(consumer.lines) >= len(BODIES))
        check_client(server, topic, features)
        assert Counter(consumer.bodies) == Counter(BODIES)
        check_wire(tap, features)
