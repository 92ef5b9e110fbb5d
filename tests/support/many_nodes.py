"""Hundreds of nodes behind one thread: a listening socket for each, and one event loop that answers for all."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from tests.support.fake_node import Answer, FakeNode, Request, info
from tests.support.fake_nsqd import FakeNsqd


@contextmanager
def listening(nodes: Sequence[FakeNsqd], lookupd: FakeNode) -> Iterator[None]:
    """The nodes answer inside, at ports of their own that `lookupd` names; none of them is entered."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="many-nodes")
    thread.start()
    try:
        servers = [asyncio.run_coroutine_threadsafe(_serve(node), loop).result(30) for node in nodes]
        lookupd.answer_as_lookupd(*nodes, topics=tuple(nodes[0].topics))
        yield
        for server in servers:
            loop.call_soon_threadsafe(server.close)
    finally:
        asyncio.run_coroutine_threadsafe(_end_connections(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _serve(node: FakeNsqd) -> asyncio.Server:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                method, target, _ = first.split(" ")
                fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                parts = urlsplit(target)
                request = Request(method, parts.path, dict(parse_qsl(parts.query)), body)
                if method == "POST":
                    node.acts.append(request)
                status, text = _as_sent(node.answer_to(request) if node.failing is None else node.failing)
                writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the caller went away, or the test is over
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    node.port = server.sockets[0].getsockname()[1]
    node.answers["/info"] = info(node.port, version=node.version, started_s=node.started_s)
    return server


async def _end_connections() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _as_sent(answer: Answer) -> tuple[int, bytes]:
    while callable(answer):
        answer = answer()
    if isinstance(answer, tuple):
        status, _, body = answer
        assert isinstance(body, bytes)
        return status, body
    return 200, answer if isinstance(answer, bytes) else json.dumps(answer).encode()
