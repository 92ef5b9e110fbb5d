"""From IDENTIFY to the topmost layer: handshakes that stall or break off, and bombs, on a transport in memory."""

import asyncio
import gc
import json
import ssl
import weakref
import zlib
from pathlib import Path

import pytest

from queue_engine.service.layers.layer import Layer
from tests.service.tcp.session_bench import Bench, pub
from tests.support.certificates import Certificates
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import sized


def identify(**fields: object) -> bytes:
    return b"IDENTIFY\n" + sized(json.dumps({"feature_negotiation": True, **fields}).encode())


@pytest.fixture
async def bench(tmp_path: Path, certificates: Certificates) -> Bench:
    pair = certificates.server
    return Bench(tmp_path, options={"tls_cert": str(pair.certificate), "tls_key": str(pair.key)})


class TlsClient:
    """A client's side of TLS on a session in memory."""

    def __init__(self, session: MemorySession, context: ssl.SSLContext) -> None:
        self.session = session
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._seen = len(session.transport.written)

    def take(self) -> None:
        """Read what the server has written."""
        self._incoming.write(self.session.transport.written[self._seen :])
        self._seen = len(self.session.transport.written)

    def hello(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def shake_hands(self) -> None:
        self.session.send(self.hello())
        self.take()
        self.tls.do_handshake()
        self.session.send(self._outgoing.read())

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.flush()

    def flush(self) -> None:
        """Send what is written, as one read."""
        self.session.send(self._outgoing.read())

    def read(self) -> bytes:
        self.take()
        return self.tls.read(1 << 16)


@pytest.mark.parametrize("sent", ["nothing", "half of a hello", "a hello"])
async def test_a_handshake_that_stalls_is_cut_after_five_seconds(
    bench: Bench, certificates: Certificates, sent: str
) -> None:
    client = bench.client()
    client.send(identify(tls_v1=True, heartbeat_interval=1_000))
    client.turn()
    hello = TlsClient(client, certificates.client_context()).hello()
    client.send({"nothing": b"", "half of a hello": hello[: len(hello) // 2], "a hello": hello}[sent])
    written = client.transport.written
    client.check_after(4_900)
    assert client.transport.written == written, "a heartbeat in plain would break the handshake"
    assert not client.transport.is_closed
    client.check_after(200)
    assert client.transport.is_aborted


async def test_heartbeats_go_on_inside_tls(bench: Bench, certificates: Certificates) -> None:
    client = bench.client()
    client.send(identify(tls_v1=True, heartbeat_interval=1_000))
    client.turn()
    tls = TlsClient(client, certificates.client_context())
    tls.shake_hands()
    assert tls.read().endswith(b"OK")
    client.check_after(1_100)
    assert tls.read().endswith(b"_heartbeat_")
    client.check_after(1_000)
    assert client.transport.is_closed, "it has been silent for two intervals"


async def test_a_connection_lost_in_its_handshake_leaves_nothing(bench: Bench, certificates: Certificates) -> None:
    client = bench.client()
    client.send(identify(tls_v1=True))
    client.turn()
    client.send(TlsClient(client, certificates.client_context()).hello())
    assert len(bench.engine.clients) == 1
    client.leave()
    assert len(bench.engine.clients) == 0


@pytest.mark.parametrize("feature", ["tls_v1", "half a handshake", "snappy", "deflate"])
async def test_the_memory_of_layers_goes_with_the_connection(
    bench: Bench, certificates: Certificates, feature: str
) -> None:
    """A storm of reconnects would fill memory until the collector comes by."""
    gc.collect()
    gc.disable()
    try:
        client = bench.client()
        client.send(identify(**{feature.replace("half a handshake", "tls_v1"): True}))
        client.turn()
        tls = TlsClient(client, certificates.client_context())
        if feature == "tls_v1":
            tls.shake_hands()
        elif feature == "half a handshake":
            client.send(tls.hello())
        layer = weakref.ref(client.transport.session)
        assert isinstance(layer(), Layer)
        client.leave()
        client.transport.session = asyncio.Protocol()  # as a closed transport forgets it
        assert layer() is None
    finally:
        gc.enable()


async def test_identify_waits_for_the_publishes_before_it_and_reads_nothing(
    bench: Bench, certificates: Certificates
) -> None:
    store = bench.known_topic("t")
    client = bench.client()
    client.send(pub("t", b"one") + pub("t", b"two") + identify(tls_v1=True))
    client.turn()
    assert client.transport.written == b""
    assert not client.transport.is_reading
    store.complete()
    client.turn()
    assert client.frames[:2] == ["OK", "OK"]
    assert json.loads(client.frames[2])["tls_v1"] is True
    assert client.transport.is_reading
    tls = TlsClient(client, certificates.client_context())
    tls.shake_hands()
    assert tls.read().endswith(b"OK")
    tls.send(pub("t", b"three"))
    client.turn()
    store.complete()
    client.turn()
    assert tls.read().endswith(b"OK")


async def test_a_bomb_of_one_line_ends_with_its_first_step(bench: Bench) -> None:
    client = bench.client()
    client.send(identify(deflate=True))
    client.turn()
    at = 4 + int.from_bytes(client.transport.written[:4], "big")  # behind the answer to IDENTIFY
    bomb = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    client.send(bomb.compress(bytes(64 << 20)) + bomb.flush(zlib.Z_SYNC_FLUSH))
    client.turn()
    found = zlib.decompressobj(-zlib.MAX_WBITS).decompress(client.transport.written[at:])
    assert found.endswith(b"E_INVALID command line longer than 16384 bytes")
    assert client.transport.is_closed


async def test_a_bomb_of_a_body_is_refused_by_its_length(bench: Bench) -> None:
    client = bench.client()
    client.send(identify(deflate=True))
    client.turn()
    bomb = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = b"PUB t\n" + (2 << 20).to_bytes(4, "big") + bytes(2 << 20)
    client.send(bomb.compress(body) + bomb.flush(zlib.Z_SYNC_FLUSH))
    client.turn()
    assert client.transport.is_closed


async def test_a_bomb_of_small_commands_takes_its_turns(bench: Bench) -> None:
    """A kilobyte may stand for as many commands as a megabyte: others have their turn meanwhile."""
    client = bench.client()
    client.send(identify(deflate=True))
    client.turn()
    bomb = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    client.send(bomb.compress(b"NOP\n" * (1 << 19)) + bomb.flush(zlib.Z_SYNC_FLUSH))
    assert not client.transport.is_reading
    turns = 0
    while not client.transport.is_reading:
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 7
    assert not client.transport.is_closed


async def test_a_large_read_of_tiny_records_gives_others_a_turn(bench: Bench, certificates: Certificates) -> None:
    session = bench.client()
    session.send(identify(tls_v1=True))
    session.turn()
    client = TlsClient(session, certificates.client_context())
    client.shake_hands()
    session.turn()
    for part in pub("t", bytes(8_000)):
        client.tls.write(bytes((part,)))
    client.flush()
    assert not session.transport.is_reading
    await asyncio.sleep(0)
    assert session.transport.is_reading
