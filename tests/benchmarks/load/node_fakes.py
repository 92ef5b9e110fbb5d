"""Nodes of a simulated cluster, all in one process: nsqds by their answers, whose counters grow with each reading.

    python -m tests.benchmarks.load.node_fakes NODES TOPICS CHANNELS CLIENTS

The first line of its output has the ports. A line "N" at its input sets the depth of the first channel of the first
topic at the first node; the line that answers it has the Unix time in ns. CLIENTS: of all nodes together.
"""

import asyncio
import sys
import time
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from tests.support.fake_node import info
from tests.support.fake_nsqd import channel, client, topic

STARTED_S = 1_700_000_000


class Node:
    def __init__(self, number: int, topics: int, channels: int, clients: int) -> None:
        self.port = 0
        self._topics = {
            f"t{one}": topic(
                f"t{one}", *(channel(f"c{each}", depth=(number + one + each) % 50) for each in range(channels))
            )
            for one in range(topics)
        }
        self._channels = [each for one in self._topics.values() for each in one["channels"]]
        self._clients: list[list[dict[str, Any]]] = [[] for _ in self._channels]
        for one in range(clients):
            host = f"worker-{one % 40}.node-{number}.example"
            address = f"10.0.{number}.{one % 250}:{20_000 + one}"
            made = client(f"worker-{one}", hostname=host, remote_address=address, ready_count=10)
            self._clients[one % len(self._clients)].append(made)
        for each, connected in zip(self._channels, self._clients, strict=True):
            each["client_count"] = len(connected)

    def set_depth(self, depth: int) -> None:
        self._channels[0]["depth"] = depth

    def answer(self, path: str, query: dict[str, str]) -> bytes:
        if path == "/info":
            return orjson.dumps(info(self.port, version="1.3.0", started_s=STARTED_S))
        name = query.get("topic", "")
        found = [self._topics[name]] if name in self._topics else [] if name else list(self._topics.values())
        for one in found:
            one["message_count"] += 7
            for each in one["channels"]:
                each["message_count"] += 7
        for each, connected in zip(self._channels, self._clients, strict=True):
            each["clients"] = connected if query.get("include_clients") != "false" else None
        document = {"version": "1.3.0", "health": "OK", "start_time": STARTED_S, "topics": found, "producers": None}
        return orjson.dumps(document)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                parts = urlsplit(head.split(b" ", 2)[1].decode("ascii"))
                body = self.answer(parts.path, dict(parse_qsl(parts.query)))
                date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
                writer.write(f"HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    nodes_count, topics, channels, clients = map(int, sys.argv[1:])
    nodes = [Node(number, topics, channels, clients // nodes_count) for number in range(nodes_count)]
    servers = [await asyncio.start_server(node.serve, "127.0.0.1", 0, limit=1 << 16) for node in nodes]
    for node, server in zip(nodes, servers, strict=True):
        node.port = server.sockets[0].getsockname()[1]
    print(" ".join(str(node.port) for node in nodes), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        nodes[0].set_depth(int(line))
        print(time.time_ns(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
