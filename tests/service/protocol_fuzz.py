"""Hostile input for the protocol and the HTTP API, without sockets: real sessions and connections on a real engine.

    python -m tests.service.protocol_fuzz [--inputs 1000000] [--seed 1]

Each input is one connection of its own: damaged scripts, length claims, odd numerals, names like paths, JSON that is
none, HTTP that smuggles. After each the engine has to have answered in frames or in HTTP, without an error of its own
in the log and within a second of the processor's time. At the end no connection, task, descriptor or memory is left
over, and no file outside of the data directory. `tests/clients/fuzz_run.py` does the same to a server's sockets.
"""

import argparse
import asyncio
import gc
import logging
import os
import random
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from queue_engine.service.http.api import HttpApi, Ports
from queue_engine.service.http.audit import HttpAudit
from queue_engine.service.tcp.engine_turns import EngineTurns
from tests.support.clock import ManualClock
from tests.support.engine import make_engine
from tests.support.http_transport import HttpTransport
from tests.support.memory_session import MemorySession
from tests.support.nsq_socket import mpub_body, sized

SECONDS_MAX = 1.0  # of the processor, for one input
LOG_FILES_MAX = 40  # that the log may keep open, of the few topics here
GROWTH_BYTES_MAX = 24 << 20  # after the first quarter
EMPTIED_EVERY = 500  # inputs: what they published goes
TOPICS = [b"orders", b"t", b"t#ephemeral", b"a.b-c_d"]
NAMES = [
    *TOPICS,
    b"..",
    b".",
    b"../../etc/passwd",
    b"a/b",
    b"a%2fb",
    b"\0",
    b"t\xff",
    b"t" * 64,
    b"t" * 65,
    b"#ephemeral",
    b"t:c",
    b"-",
    "\u0661".encode(),
    b"",
]
NUMBERS = [
    b"0",
    b"1",
    b"-1",
    b"+1",
    b"1_0",
    b" 7",
    b"007",
    b"1e3",
    b"0x10",
    b"2500",
    b"2501",
    b"9" * 19,
    b"9" * 40,
    "\u0667".encode(),
    b"1.5",
    b"",
    b"NaN",
]
SIZES = [0, 1, 5, -1, 100, 1 << 20, (1 << 20) + 1, 5 << 20, 0x7FFFFFFF, -0x80000000]
IDS = [b"0123456789abcdef", b"short", b"\0" * 16, b"x" * 17, b"0123456789abcde\n"]
JSONS = [
    b"{}",
    b"null",
    b"[]",
    b'{"heartbeat_interval":-1}',
    b'{"client_id":"\xff","msg_timeout":1000,"feature_negotiation":true}',
    b'{"a":' * 2_000,
    b'{"sample_rate":99999999999999999999}',
    b'{"output_buffer_size":64,"output_buffer_timeout":25}',
    b'{"snappy":true,"feature_negotiation":true}',
    b'{"deflate":true,"feature_negotiation":true,"deflate_level":9}',
    b'{"tls_v1":true,"feature_negotiation":true}',
    b"\xef\xbb\xbf{}",
]
PATHS = [
    b"/pub?topic=%b",
    b"/mpub?topic=%b",
    b"/mpub?binary=true&topic=%b",
    b"/pub?defer=5&topic=%b",
    b"/topic/create?topic=%b",
    b"/topic/pause?topic=%b",
    b"/channel/create?channel=c&topic=%b",
    b"/channel/empty?channel=c&topic=%b",
    b"/stats?format=json&topic=%b",
    b"/config/%b",
    b"/topic/messages?topic=%b",
    b"/log/read?offset=0&topic=%b",
    b"/../%b",
    b"//%b/..//ping",
    b"/%b?%%zz",
]
HEADERS = [
    b"Content-Length: 5",
    b"Content-Length: 00005",
    b"Content-Length: +5",
    b"Content-Length: 5, 5",
    b"Content-Length: 999999999999999999999",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding : chunked",
    b"Expect: 100-continue",
    b"Expect: x",
    b"Connection: keep-alive, close",
    b"Upgrade: h2c",
    b"Origin: http://evil.example",
    b"Origin: null",
    b"Sec-Fetch-Site: cross-site",
    b"Host: evil.example",
    b"Accept-Encoding: gzip",
    b"X: " + b"y" * 20_000,
    b" folded",
    b"No colon",
]
BODIES = [b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"", mpub_body([b"a", b"b"])]
CLIENT_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"


def tcp_script(chance: random.Random) -> bytes:
    """A few commands, most of them nearly right."""
    name, number, identity = chance.choice(NAMES), chance.choice(NUMBERS), chance.choice(IDS)
    commands = [
        b"PUB %b\n" % name + sized(b"hello"),
        b"PUB %b\n" % name + struct.pack(">i", chance.choice(SIZES)) + b"hello",
        b"MPUB %b\n" % name + sized(mpub_body([b"a", b"bc"])),
        b"MPUB %b\n" % name + struct.pack(">iii", chance.choice(SIZES), chance.choice(SIZES), chance.choice(SIZES)),
        b"DPUB %b %b\n" % (name, number) + sized(b"later"),
        b"SUB %b %b\n" % (chance.choice(TOPICS), name),
        b"SUB t c\nRDY %b\n" % number,
        b"RDY %b\n" % number,
        b"FIN %b\n" % identity,
        b"REQ %b %b\n" % (identity, number),
        b"TOUCH %b\n" % identity,
        b"IDENTIFY\n" + sized(chance.choice(JSONS)),
        b"IDENTIFY\n" + struct.pack(">i", chance.choice(SIZES)),
        b"AUTH\n" + sized(b"secret"),
        b"CLS\n",
        b"NOP\r\n",
        b"\n\n",
        CLIENT_HELLO,
        chance.randbytes(chance.randrange(60)),
    ]
    magic = b"  V2" if chance.random() < 0.95 else chance.choice([b"  V1", b"GET ", CLIENT_HELLO])
    return magic + b"".join(chance.choice(commands) for _ in range(chance.randrange(1, 6)))


def http_script(chance: random.Random) -> bytes:
    """One or two requests, most of them nearly right."""
    requests = b""
    for _ in range(chance.randrange(1, 3)):
        name = chance.choice(NAMES).replace(b" ", b"+")
        method = chance.choice([b"GET", b"POST", b"POST", b"PUT", b"HEAD", b"OPTIONS", b"XX\0", b"CONNECT"])
        version = chance.choice([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1x", b""])
        head = [method + b" " + chance.choice(PATHS) % name + b" " + version, b"Host: localhost"]
        head += chance.sample(HEADERS, chance.randrange(4))
        requests += b"\r\n".join([*head, b"", b""]) + chance.choice(BODIES)
    return requests


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Perhaps with a byte changed, a part lost, doubled or inserted, or the end cut off."""
    parts = bytearray(data)
    for _ in range(chance.choice([0, 0, 1, 1, 2, 5])):
        if not parts:
            break
        at = chance.randrange(len(parts))
        kind = chance.randrange(5)
        if kind == 0:
            parts[at] = chance.randrange(256)
        elif kind == 1:
            del parts[at : at + chance.randrange(1, 9)]
        elif kind == 2:
            parts[at:at] = parts[at : at + chance.randrange(1, 40)]
        elif kind == 3:
            parts[at:at] = chance.randbytes(chance.randrange(1, 5))
        else:
            del parts[at:]
    return bytes(parts)


class Errors(logging.Handler):
    """Keeps what the server logs as an error of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage() + (f" {record.exc_info[1]!r}" if record.exc_info else ""))


@dataclass
class Leftovers:
    """What a run must not add to."""

    tasks: int = field(default_factory=lambda: len(asyncio.all_tasks()))
    descriptors: int = field(default_factory=lambda: len(os.listdir("/proc/self/fd")))


class Fuzz:
    """One engine, and connections to it that live for one input each."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock()
        self.turns = EngineTurns()
        (directory / "data").mkdir()
        self.engine = make_engine(
            directory / "data",
            self.clock,
            on_work=self.turns.soon,
            sync="os",
            trash_age_ms=0,  # what is deleted would stay, and grow, for a day
            max_topics=30,
            max_channels_per_topic=30,
            log_segment_bytes=80 << 20,
        )
        self.turns.drive(self.engine)
        self.api = HttpApi(self.engine, ports=lambda: Ports(4150, 4151), audit=HttpAudit(None))
        self.faults: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: self.faults.append(context))

    def pieces(self, data: bytes) -> list[bytes]:
        cuts = sorted(self.chance.randrange(len(data) + 1) for _ in range(self.chance.choice([0, 0, 1, 3])))
        return [piece for piece in map(data.__getitem__, map(slice, [0, *cuts], [*cuts, len(data)])) if piece]

    def tcp(self, data: bytes) -> bytes:
        """One connection with this input; what it got."""
        client = MemorySession(self.engine, self.clock, self.turns, magic=b"")
        transport = client.transport
        transport.is_full = self.chance.random() < 0.05
        for piece in self.pieces(data):
            if transport.is_closed or not transport.is_reading:
                break
            client.send(piece)
            if self.chance.random() < 0.5:
                client.turn()
        if self.chance.random() < 0.3:
            client.check_after(self.chance.choice([100, 6_000, 61_000]))
        if not transport.is_closed and self.chance.random() < 0.5:
            transport.session.eof_received()
        client.turn()
        transport.is_closed = True
        transport.session.connection_lost(None)
        client.turn()
        return transport.written

    async def http(self, data: bytes) -> bytes:
        connection, transport = self.api.protocol_factory(), HttpTransport()
        connection.connection_made(transport)
        for piece in self.pieces(data):
            if transport.is_closed:
                break
            connection.data_received(piece)
            await self._answered()
        if not transport.is_closed:
            connection.eof_received()
            await self._answered()
        connection.connection_lost(None)
        return transport.written

    async def _answered(self) -> None:
        self.turns.run()
        for _ in range(4):
            await asyncio.sleep(0)

    def empty(self) -> None:
        """Drop what was published, so that memory and disk stay small."""
        for name in list(self.engine.topics):
            self.engine.acts.delete_topic(name)
        self.turns.run()
        self.clock.advance(ms=1_000)
        self.engine.tick()


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_frames(written: bytes, data: bytes) -> None:
    """What a plain client got is whole frames. Behind an agreed compression it is not looked at."""
    at = 0
    while at < len(written):
        size, kind = struct.unpack_from(">ii", written, at)
        assert kind in (0, 1, 2), (written[at : at + 80], data)
        payload = written[at + 8 : at + 4 + size]
        if kind == 0 and payload[:1] == b"{" and (b'"snappy":true' in payload or b'"deflate":true' in payload):
            return
        assert kind != 1 or payload.startswith(b"E_"), (payload, data)
        assert b"bytearray" not in payload
        at += 4 + size
    assert at == len(written), (written[-80:], data)


async def fuzz(directory: Path, *, inputs: int, seed: int, checks_memory: bool) -> None:
    """Raises AssertionError, naming the input, for whatever goes wrong."""
    errors = Errors()
    logger = logging.getLogger("queue_engine")
    level = logger.level
    logger.setLevel(logging.ERROR)  # a line for each refused input would be most of the work
    logger.addHandler(errors)
    run = Fuzz(directory, seed)
    chance = run.chance
    await run._answered()
    before, resident_before = Leftovers(), 0
    statuses: set[bytes] = set()
    try:
        for number in range(inputs):
            is_http = number % 4 == 3
            data = damaged((http_script if is_http else tcp_script)(chance), chance)
            began_s = time.thread_time()
            written = await run.http(data) if is_http else run.tcp(data)
            took_s = time.thread_time() - began_s
            assert took_s < SECONDS_MAX, f"input {number} took {took_s:.2f} s: {data!r}"
            assert errors.found == [], f"input {number}: {errors.found} {data!r}"
            assert run.faults == [], f"input {number}: {run.faults} {data!r}"
            if is_http:
                assert not written or written.startswith(b"HTTP/1."), data
                assert written[9:12] != b"500", (written, data)
                assert b"bytearray" not in written, (written, data)
                statuses.add(written[9:12])
            else:
                check_frames(written, data)
                await asyncio.sleep(0)
            if number % EMPTIED_EVERY == EMPTIED_EVERY - 1:
                run.empty()
            if checks_memory and number == inputs // 4:
                gc.collect()
                resident_before = resident_bytes()
            if checks_memory and number % 50_000 == 0:
                print(f"{number} inputs, {resident_bytes() >> 20} MiB", flush=True)
        run.empty()
        await run._answered()
        gc.collect()
        after = Leftovers()
        assert run.api.connection_count == 0
        assert run.engine.stats.now().connection_count == 0
        assert after.tasks <= before.tasks, (before, after)
        assert after.descriptors <= before.descriptors + LOG_FILES_MAX, (before, after)
        assert {path.name for path in directory.iterdir()} == {"data"}
        if checks_memory:
            growth = resident_bytes() - resident_before
            print(f"{inputs} inputs, {growth >> 10} KiB more than after a quarter of them; {sorted(statuses)}")
            assert growth < GROWTH_BYTES_MAX
        else:
            assert statuses >= {b"200", b"400", b"403", b"404", b"405"}, statuses
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        run.engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(fuzz(Path(directory), inputs=given.inputs, seed=given.seed, checks_memory=True))


if __name__ == "__main__":
    main()
