"""Damaged requests: each is answered in order or refused, none raises, none leaves a connection behind."""

import asyncio
import random
from pathlib import Path
from typing import Any

from queue_engine.service.http.api import HttpApi, Ports
from queue_engine.service.http.audit import HttpAudit
from tests.support.clock import ManualClock
from tests.support.engine import make_engine, settle
from tests.support.http_transport import HttpTransport
from tests.support.waiting import wait_for_async

ROUNDS = 2_000
HOST = b" HTTP/1.1\r\nHost: localhost\r\n"
REQUESTS = [
    b"POST /pub?topic=t&defer=5 HTTP/1.1\r\nHost: [::1]:1\r\nOrigin: http://[::1]:1\r\nContent-Length: 2\r\n\r\nhi",
    b"POST /mpub?topic=t&binary=1" + HOST + b"Transfer-Encoding: chunked\r\n\r\n9\r\n\0\0\0\1\0\0\0\1x\r\n0\r\n\r\n",
    b"GET /stats?format=json&topic=t%23" + HOST + b"Expect: 100-continue\r\nSec-Fetch-Site: none\r\n\r\n",
    b"POST http://localhost:1/channel/pause?topic=t&channel=c" + HOST + b"Connection: Upgrade\r\nUpgrade: x\r\n\r\n",
    b"CONNECT localhost:80" + HOST + b"\r\n",
    b"OPTIONS *" + HOST + b"\r\n",
    b"HEAD /ping" + HOST + b"\r\n",
    b"GET /ping HTTP/1.0\r\n\r\n",
]
TELLING_BYTES = b" \r\n:/%\0@[]?#;\xff"


def damaged(chance: random.Random) -> bytes:
    data = bytearray(b"".join(chance.choice(REQUESTS) for _ in range(chance.randint(1, 3))))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(data))
        kind = chance.random()
        if kind < 0.5:
            data[at] = chance.choice([chance.randrange(256), *TELLING_BYTES])
        elif kind < 0.8:
            del data[at : at + chance.randint(1, 5)]
        else:
            data[at:at] = chance.randbytes(chance.randint(1, 4))
    return bytes(data)


async def test_damaged_requests(tmp_path: Path) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    engine = make_engine(tmp_path, ManualClock(), max_topics=5)
    api = HttpApi(engine, ports=lambda: Ports(4150, 4151), audit=HttpAudit(None))
    chance = random.Random(4151)
    statuses: set[int] = set()
    for _ in range(ROUNDS):
        data = damaged(chance)
        connection, transport = api.protocol_factory(), HttpTransport()
        connection.connection_made(transport)
        cut = chance.randrange(len(data) + 1)
        for piece in filter(None, (data[:cut], data[cut:])):
            if not transport.is_closed:
                connection.data_received(piece)
                settle(engine)
        if not transport.is_closed:
            connection.eof_received()
        await wait_for_async("an answer", lambda transport=transport: transport.written, every_s=0)
        assert transport.written.startswith((b"HTTP/1.1 ", b"HTTP/1.0 ")), data
        assert b"bytearray" not in transport.written
        status = int(transport.written[9:12])
        assert status != 500, data
        statuses.add(status)
        connection.connection_lost(None)
    assert faults == []
    assert api.connection_count == 0
    # The damage reached all the ways out.
    assert statuses >= {100, 200, 400, 403, 404, 405, 413}
    engine.close()
