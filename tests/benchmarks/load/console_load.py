"""People at the console: pages reloaded without pause, passwords guessed, live pages left open. Until a second "go".

python -m tests.benchmarks.load.console_load reload PORT PATH CLIENTS
python -m tests.benchmarks.load.console_load visit  PORT PATH CLIENTS    reloaded every 2 s, as people do
python -m tests.benchmarks.load.console_load guess  PORT PATH CLIENTS
python -m tests.benchmarks.load.console_load watch  PORT PATH SOCKETS
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable

import websockets

from tests.benchmarks.load.gate import report, wait_for_go
from tests.support.pages.console_client import ConsoleClient

VISIT_EVERY_S = 2.0


def logged_in(port: int) -> ConsoleClient:
    client = ConsoleClient(port)
    client.log_in()
    return client


def reload(port: int, path: str, count: int, every_s: float = 0.0) -> None:
    """`count` sessions, each asking for the page again `every_s` seconds after it has come."""
    clients = [logged_in(port) for _ in range(count)]

    def ask(number: int) -> None:
        answer = clients[number].get(path)
        if answer.status != 200:
            raise RuntimeError(f"{path} answered {answer.status}")

    again_and_again(ask, count, every_s)


def guess(port: int, path: str, count: int) -> None:
    """`count` browsers, each with a wrong password for a name of its own as soon as the last one was refused."""
    clients = [ConsoleClient(port) for _ in range(count)]
    forms = [client.form(path) for client in clients]

    def ask(number: int) -> None:
        answer = clients[number].send(path, forms[number] | {"username": f"user{number}", "password": "not it"})
        if answer.status not in (400, 429, 503):
            raise RuntimeError(f"a guess was answered with {answer.status}")

    again_and_again(ask, count)


def again_and_again(ask: Callable[[int], None], count: int, every_s: float = 0.0) -> None:
    """Sends requests in `count` threads until the stop line comes; reports the number of answers, their times, and the
    processor seconds that this program took."""
    took_ns: list[list[int]] = [[] for _ in range(count)]
    is_over = threading.Event()

    def run(number: int) -> None:
        while not is_over.is_set():
            asked_ns = time.monotonic_ns()
            ask(number)
            took_ns[number].append(time.monotonic_ns() - asked_ns)
            if every_s:
                is_over.wait(every_s)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    start_ns = wait_for_go()
    cpu_s = time.process_time()
    for thread in threads:
        thread.start()
    sys.stdin.readline()
    is_over.set()
    for thread in threads:
        thread.join()
    latencies_ns = [latency for one in took_ns for latency in one]
    seconds = (time.monotonic_ns() - start_ns) / 1e9
    report(count=len(latencies_ns), seconds=seconds, latencies_ns=latencies_ns, cpu_s=time.process_time() - cpu_s)


async def watch(port: int, path: str, count: int) -> None:
    """`count` open pages of one session, each acknowledging its frames as the browser does."""
    client = logged_in(port)
    subscription = client.subscription(path)
    frames = [0] * count
    all_have_one, one_came = asyncio.Event(), asyncio.Event()

    async def page(number: int) -> None:
        async with websockets.connect(
            f"ws://127.0.0.1:{port}/ws/live/",
            additional_headers={"Cookie": client.cookie},
            origin=websockets.Origin(client.origin),
            max_size=None,
        ) as socket:
            await socket.send(f'{{"subscribe":{subscription}}}')
            async for text in socket:
                await socket.send(f'{{"ack":{json.loads(text)["seq"]}}}')
                frames[number] += 1
                one_came.set()
                if all(frames):
                    all_have_one.set()

    pages = [asyncio.create_task(page(number)) for number in range(count)]
    await asyncio.wait_for(all_have_one.wait(), 30)
    await asyncio.to_thread(wait_for_go)
    before, cpu_s = sum(frames), time.process_time()
    one_came.clear()
    await asyncio.to_thread(sys.stdin.readline)
    await asyncio.wait_for(one_came.wait(), 30)  # they come once a second, and the run may be shorter
    for task in pages:
        if task.done():
            task.result()
            raise RuntimeError("a page's socket was closed")
        task.cancel()
    report(count=sum(frames) - before, cpu_s=time.process_time() - cpu_s)


if __name__ == "__main__":
    kind, port_text, page_path, count_text = sys.argv[1:]
    if kind == "reload":
        reload(int(port_text), page_path, int(count_text))
    elif kind == "visit":
        reload(int(port_text), page_path, int(count_text), VISIT_EVERY_S)
    elif kind == "guess":
        guess(int(port_text), page_path, int(count_text))
    else:
        asyncio.run(watch(int(port_text), page_path, int(count_text)))
